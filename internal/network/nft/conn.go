//go:build linux

package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is a netlink socket to nf_tables.
type Conn struct {
	fd     int
	buffer []byte
	sent   uint32 // the last sequence number
}

// answerTimeout is how long the kernel may take for one answer.
const answerTimeout = time.Minute

// Dial opens a socket in the network namespace of the calling thread.
func Dial() (*Conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("nf_tables: %w", os.NewSyscallError("socket", err))
	}
	c := &Conn{fd: fd, buffer: make([]byte, 1<<16)}
	limit := unix.NsecToTimeval(answerTimeout.Nanoseconds())
	err = errors.Join(
		unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1), // errors do not contain the message
	)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("nf_tables: %w", err)
	}
	return c, nil
}

// Close closes the socket.
func (c *Conn) Close() error { return unix.Close(c.fd) }

// Commit sends a batch and waits for its result. It does nothing for an empty batch.
func (c *Conn) Commit(b *Batch) error {
	if len(b.steps) == 0 {
		return nil
	}
	var whole Batch
	whole.buf = make(attributes, 0, len(b.buf)+64)
	whole.raw(unix.NFNL_MSG_BATCH_BEGIN, unix.NLM_F_REQUEST, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)
	at := len(whole.buf)
	whole.buf = append(whole.buf, b.buf...)
	flags := whole.buf[at+b.last+6:]
	binary.NativeEndian.PutUint16(flags, binary.NativeEndian.Uint16(flags)|unix.NLM_F_ACK) // of the last message: its acknowledgement means that all messages are done
	last := uint32(firstSequence + len(b.steps) - 1)
	whole.raw(unix.NFNL_MSG_BATCH_END, unix.NLM_F_REQUEST, last+1, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)
	if err := c.drain(); err != nil {
		return err
	}
	if err := c.send(whole.buf); err != nil {
		return err
	}
	return c.waitAcknowledged(b, last)
}

// send sends a message with one system call, however large it is.
func (c *Conn) send(message []byte) error {
	room := 2*len(message) + 1<<16
	if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, room); err != nil {
		_ = unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, room)
	}
	if err := unix.Sendto(c.fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("nf_tables: send %d bytes: %w", len(message), err)
	}
	return nil
}

// drain discards what is left of an earlier failure.
func (c *Conn) drain() error {
	for {
		_, _, err := unix.Recvfrom(c.fd, c.buffer, unix.MSG_DONTWAIT)
		switch {
		case err == unix.EAGAIN:
			return nil
		case err != nil && err != unix.ENOBUFS && err != unix.EINTR:
			return fmt.Errorf("nf_tables: %w", err)
		}
	}
}

// waitAcknowledged waits for the result of a batch: the first error, or the acknowledgement of the last message.
func (c *Conn) waitAcknowledged(b *Batch, last uint32) error {
	for {
		messages, err := c.receive()
		if err != nil {
			return err
		}
		for _, m := range messages {
			if m.kind != unix.NLMSG_ERROR || len(m.body) < 4 {
				continue
			}
			if number := -int32(binary.NativeEndian.Uint32(m.body)); number != 0 {
				return b.errorFor(m.sequence, unix.Errno(number))
			}
			if m.sequence == last {
				return nil
			}
		}
	}
}

// message is a received netlink message.
type message struct {
	kind, flags uint16
	sequence    uint32
	body        []byte
}

func (c *Conn) receive() ([]message, error) {
	n, err := c.read()
	if err != nil {
		return nil, fmt.Errorf("nf_tables: %w", err)
	}
	var all []message
	for rest := c.buffer[:n]; len(rest) >= unix.NLMSG_HDRLEN; {
		size := int(binary.NativeEndian.Uint32(rest))
		if size < unix.NLMSG_HDRLEN || size > len(rest) {
			return nil, errors.New("nf_tables: a message is cut")
		}
		all = append(all, message{
			kind: binary.NativeEndian.Uint16(rest[4:]), flags: binary.NativeEndian.Uint16(rest[6:]),
			sequence: binary.NativeEndian.Uint32(rest[8:]), body: rest[unix.NLMSG_HDRLEN:size],
		})
		rest = rest[min(len(rest), (size+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1)):]
	}
	return all, nil
}

func (c *Conn) read() (int, error) {
	for {
		n, _, err := unix.Recvfrom(c.fd, c.buffer, 0)
		switch err {
		case nil:
			return n, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, errors.New("the kernel does not answer")
		default:
			return 0, err
		}
	}
}
