package dns

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"runtime"
	"sync"

	wire "github.com/miekg/dns"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// socketBuffer is how many bytes of requests may wait in the kernel.
const socketBuffer = 4 << 20

// datagram is a received request.
type datagram struct {
	conn   *net.UDPConn
	from   netip.AddrPort
	source []byte // control message by which the reply has the address that the request was sent to
}

// serveDatagrams starts one reader for each processor. The reader itself answers requests that need no upstream server.
func (s *Server) serveDatagrams(ctx context.Context, all *sync.WaitGroup, conn *net.UDPConn) {
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() { s.read(ctx, conn) })
	}
}

func (s *Server) read(ctx context.Context, conn *net.UDPConn) {
	in, control := make([]byte, wire.MaxMsgSize), make([]byte, 128)
	answers := s.newAnswerer()
	var sources sources
	var q query
	for {
		n, c, _, from, err := conn.ReadMsgUDPAddrPort(in, control)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			continue // an error of one datagram only: an earlier reply could not be delivered
		}
		if !q.parse(in[:n]) {
			continue // a client that sends this would not understand an error either
		}
		d := datagram{conn: conn, from: from, source: sources.of(control[:c])}
		reply, alias := answers.answer(&q, q.datagramSize())
		if reply != nil && alias == "" {
			d.reply(reply)
		} else if o, ok := newOnward(in[:n], reply, alias); ok {
			s.answerOnward(ctx, d, o, q.datagramSize())
		}
	}
}

// answerOnward answers from the cache, or later, when upstream servers have answered.
func (s *Server) answerOnward(ctx context.Context, d datagram, o onward, size int) {
	if o.partial == nil {
		if cached := s.forward.cached(o.request); cached != nil {
			s.send(d, o.request, cached, size)
			return
		}
	}
	select {
	case s.pending <- struct{}{}:
	default:
		s.send(d, o.request, plain(o.request, wire.RcodeServerFailure), size)
		return
	}
	s.waiting.Go(func() {
		defer func() { <-s.pending }()
		s.send(d, o.request, s.ask(ctx, o), size)
	})
}

func (s *Server) send(d datagram, request, reply *wire.Msg, size int) {
	fit(reply, size)
	packed, err := reply.Pack()
	if err != nil {
		s.log.Warn("a DNS answer cannot be written", "question", request.Question, "err", err)
		if packed, err = plain(request, wire.RcodeServerFailure).Pack(); err != nil {
			return
		}
	}
	d.reply(packed)
}

func (d datagram) reply(packed []byte) {
	_, _, _ = d.conn.WriteMsgUDPAddrPort(packed, d.source, d.from) // clients repeat unanswered requests
}

// sources converts control messages of requests to those of replies. Nearly all are the same as the one before, so that
// one is kept.
type sources struct{ request, reply []byte }

func (s *sources) of(control []byte) []byte {
	if !bytes.Equal(control, s.request) {
		s.request, s.reply = bytes.Clone(control), replySource(control)
	}
	return s.reply
}

// enablePacketInfo makes a socket that listens on all addresses report the destination address of each datagram.
func enablePacketInfo(conn *net.UDPConn) error {
	if !conn.LocalAddr().(*net.UDPAddr).IP.IsUnspecified() {
		return nil
	}
	six := ipv6.NewPacketConn(conn).SetControlMessage(ipv6.FlagDst|ipv6.FlagInterface, true)
	four := ipv4.NewPacketConn(conn).SetControlMessage(ipv4.FlagDst|ipv4.FlagInterface, true)
	if six != nil && four != nil {
		return four
	}
	return nil
}

// replySource converts the control message of a request to that of its reply.
func replySource(control []byte) []byte {
	if len(control) == 0 {
		return nil
	}
	var six ipv6.ControlMessage
	if six.Parse(control) == nil && six.Dst != nil {
		if six.Dst.To4() != nil {
			return (&ipv4.ControlMessage{Src: six.Dst}).Marshal()
		}
		return (&ipv6.ControlMessage{Src: six.Dst}).Marshal()
	}
	var four ipv4.ControlMessage
	if four.Parse(control) == nil && four.Dst != nil {
		return (&ipv4.ControlMessage{Src: four.Dst}).Marshal()
	}
	return nil
}
