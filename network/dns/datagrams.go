package dns

import (
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
	in, control, out := make([]byte, wire.MaxMsgSize), make([]byte, 128), make([]byte, wire.MaxMsgSize)
	for {
		n, c, _, from, err := conn.ReadMsgUDPAddrPort(in, control)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			continue // an error of one datagram only: an earlier reply could not be delivered
		}
		request := new(wire.Msg)
		if request.Unpack(in[:n]) != nil || request.Response {
			continue // a client that sends this would not understand an error either
		}
		d := datagram{conn: conn, from: from, source: replySource(control[:c])}
		if reply := s.answer(request); reply != nil {
			s.send(d, request, reply, out)
			continue
		}
		s.answerLater(ctx, d, request)
	}
}

// answerLater asks upstream servers, and then answers.
func (s *Server) answerLater(ctx context.Context, d datagram, request *wire.Msg) {
	select {
	case s.pending <- struct{}{}:
	default:
		s.send(d, request, plain(request, wire.RcodeServerFailure), nil)
		return
	}
	s.waiting.Go(func() {
		defer func() { <-s.pending }()
		s.send(d, request, s.ask(ctx, request), nil)
	})
}

func (s *Server) send(d datagram, request, reply *wire.Msg, buffer []byte) {
	fit(reply, request, true)
	bytes, err := reply.PackBuffer(buffer)
	if err != nil {
		s.log.Warn("a DNS answer cannot be written", "question", request.Question, "err", err)
		if bytes, err = plain(request, wire.RcodeServerFailure).PackBuffer(buffer); err != nil {
			return
		}
	}
	_, _, _ = d.conn.WriteMsgUDPAddrPort(bytes, d.source, d.from) // clients repeat unanswered requests
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
