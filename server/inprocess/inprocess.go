// Package inprocess carries HTTP requests to a handler in the same process, without a connection: for the loops that run
// beside the API server. It is the same API, with the same bytes, less the cost of a network.
//
// Every request is served on a goroutine of its own until the handler returns; a caller that closes the body, or whose
// context ends, ends the handler's context. Close waits for all of them.
package inprocess

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/millrace/millrace/internal/crew"
)

// Transport is an http.RoundTripper that calls a handler.
type Transport struct {
	handler http.Handler
	context func(context.Context) context.Context
	stop    context.CancelCauseFunc
	ends    context.Context

	crew crew.Crew

	mu     sync.RWMutex
	closed bool // guarded by mu
}

// ErrClosed is what requests get after Close.
var ErrClosed = errors.New("the server in this process has been closed")

// New makes a transport to a handler. inContext, when not nil, adds what the handler shall know of the caller.
func New(h http.Handler, inContext func(context.Context) context.Context) *Transport {
	t := &Transport{handler: h, context: inContext}
	if inContext == nil {
		t.context = func(ctx context.Context) context.Context { return ctx }
	}
	t.ends, t.stop = context.WithCancelCause(context.Background())
	return t
}

// Close ends all requests and waits until their handlers have returned.
func (t *Transport) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.stop(ErrClosed)
	t.crew.Close()
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	x := t.exchange(r)
	if !t.serve(x) {
		x.end()
		return nil, ErrClosed
	}
	select {
	case <-x.answer.started:
		return x.answer.response(r), nil
	case <-r.Context().Done():
		x.answer.cancel(nil)
		return nil, context.Cause(r.Context())
	}
}

// exchange is a request and its answer.
type exchange struct {
	handler http.Handler
	request *http.Request
	answer  *answer
	unhook  func() bool
}

func (t *Transport) exchange(r *http.Request) *exchange {
	ctx, cancel := context.WithCancelCause(r.Context())
	x := &exchange{
		handler: t.handler,
		request: r.Clone(t.context(ctx)),
		answer:  &answer{header: http.Header{}, started: make(chan struct{}), context: ctx, cancel: cancel},
		unhook:  context.AfterFunc(t.ends, func() { cancel(ErrClosed) }),
	}
	x.answer.wake.L = &x.answer.mu
	if x.request.Body == nil {
		x.request.Body = http.NoBody
	}
	x.request.RequestURI = r.URL.RequestURI()
	x.request.RemoteAddr = "127.0.0.1:0"
	x.request.Proto, x.request.ProtoMajor, x.request.ProtoMinor = "HTTP/2.0", 2, 0
	return x
}

// end lets go of what an exchange holds.
func (x *exchange) end() {
	x.unhook()
	x.answer.cancel(nil)
}

// serve lets somebody serve an exchange. It refuses after Close.
func (t *Transport) serve(x *exchange) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !t.closed {
		t.crew.Start(x)
	}
	return !t.closed
}

// Do calls the handler and ends the answer, with an error if the handler gave up.
func (x *exchange) Do() {
	defer x.end()
	defer func() {
		var err error
		if p := recover(); p != nil {
			err = io.ErrUnexpectedEOF
		}
		x.answer.finish(err)
	}()
	x.handler.ServeHTTP(x.answer, x.request)
}
