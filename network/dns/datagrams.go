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

// socketBuffer is how many bytes of questions may wait in the kernel.
const socketBuffer = 4 << 20

// datagram is a question as it came.
type datagram struct {
	conn   *net.UDPConn
	from   netip.AddrPort
	source []byte // control message that makes the reply come from where the question went
}

// serveDatagrams starts as many readers as there are processors. What can be answered at once, a reader answers itself.
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
			continue // of one datagram: an earlier reply could not be delivered
		}
		request := new(wire.Msg)
		if request.Unpack(in[:n]) != nil || request.Response {
			continue // a client that sends this would not understand an error either
		}
		d := datagram{conn: conn, from: from, source: source(control[:c])}
		if reply := s.answer(request); reply != nil {
			s.send(d, request, reply, out)
			continue
		}
		s.later(ctx, d, request)
	}
}

// later asks others, and answers then.
func (s *Server) later(ctx context.Context, d datagram, request *wire.Msg) {
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
	_, _, _ = d.conn.WriteMsgUDPAddrPort(bytes, d.source, d.from) // clients ask again
}

// tellDestination makes a socket tell where datagrams were sent to, if it listens on all addresses.
func tellDestination(conn *net.UDPConn) error {
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

// source makes of the control message of a question that of its reply.
func source(control []byte) []byte {
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
