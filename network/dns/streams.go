package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	wire "github.com/miekg/dns"
)

// The limits of TCP connections.
const (
	maxStreams = 500
	idleStream = 10 * time.Second
)

// serveStreams accepts connections until the listener is closed.
func (s *Server) serveStreams(ctx context.Context, fail context.CancelCauseFunc, l net.Listener) {
	var all sync.WaitGroup
	defer all.Wait()
	room := make(chan struct{}, maxStreams)
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, net.ErrClosed):
			fail(err)
			return
		case err != nil:
			s.log.Warn("a DNS connection could not be accepted", "err", err)
			pause(ctx, time.Second)
			continue
		}
		select {
		case room <- struct{}{}:
			all.Go(func() {
				defer func() { <-room }()
				s.serveStream(ctx, conn)
			})
		default:
			conn.Close()
		}
	}
}

// serveStream answers the requests of one connection, in their order.
func (s *Server) serveStream(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	for {
		_ = conn.SetDeadline(time.Now().Add(idleStream))
		request, err := readMessage(conn)
		if err != nil || request.Response {
			return
		}
		reply := s.answer(request)
		if reply == nil {
			reply = s.ask(ctx, request)
		}
		fit(reply, request, false)
		if writeMessage(conn, reply) != nil {
			return
		}
	}
}

func readMessage(r io.Reader) (*wire.Msg, error) {
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	bytes := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(r, bytes); err != nil {
		return nil, err
	}
	m := new(wire.Msg)
	return m, m.Unpack(bytes)
}

func writeMessage(w io.Writer, m *wire.Msg) error {
	bytes, err := m.Pack()
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(bytes))), bytes...))
	return err
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
