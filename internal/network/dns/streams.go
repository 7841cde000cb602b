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

	"github.com/millrace/millrace/internal/sleep"
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
			sleep.For(ctx, time.Second)
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
	answers := s.newAnswerer()
	for {
		_ = conn.SetDeadline(time.Now().Add(idleStream))
		request, err := readMessage(conn)
		if err != nil {
			return
		}
		reply, ok := s.answerWhole(ctx, answers, request)
		if !ok || writeMessage(conn, reply) != nil {
			return
		}
	}
}

// answerWhole answers a request of a stream. It fails if the request is malformed.
func (s *Server) answerWhole(ctx context.Context, answers *answerer, request []byte) ([]byte, bool) {
	var q query
	if !q.parse(request) {
		return nil, false
	}
	reply, alias := answers.answer(&q, wire.MaxMsgSize)
	if reply != nil && alias == "" {
		return reply, true
	}
	o, ok := newOnward(request, reply, alias)
	if !ok {
		return nil, false
	}
	m := s.ask(ctx, o)
	fit(m, wire.MaxMsgSize)
	packed, err := m.Pack()
	return packed, err == nil
}

func readMessage(r io.Reader) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	message := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err := io.ReadFull(r, message)
	return message, err
}

func writeMessage(w io.Writer, message []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...))
	return err
}
