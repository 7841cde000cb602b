// Package inprocess passes HTTP requests to a handler in the same process, without a connection. The control loops that
// run beside the API server use it. It is the same API with the same bytes, without the cost of a network.
//
// Each request is served on a goroutine of its own until the handler returns. If the caller closes the body, or its
// context ends, the handler's context ends, too. Close waits for all handlers.
package inprocess

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/millrace/millrace/internal/workers"
)

// Transport is an http.RoundTripper that calls a handler.
type Transport struct {
	context func(context.Context) context.Context
	stop    context.CancelCauseFunc
	ends    context.Context

	workers workers.Pool

	mu      sync.RWMutex // guards what follows
	handler http.Handler
	closed  bool
}

var (
	// ErrClosed is the error of requests after Close.
	ErrClosed = errors.New("the server in this process has been closed")
	// ErrNotServing is the error of requests while there is no handler.
	ErrNotServing = errors.New("the server in this process does not serve yet")
)

// New makes a transport to a handler; if that is nil, Serve sets it later. inContext, if not nil, adds to the context
// what the handler needs to know about the caller.
func New(h http.Handler, inContext func(context.Context) context.Context) *Transport {
	t := &Transport{handler: h, context: inContext}
	if inContext == nil {
		t.context = func(ctx context.Context) context.Context { return ctx }
	}
	t.ends, t.stop = context.WithCancelCause(context.Background())
	return t
}

// Serve sets the handler of the requests from now on.
func (t *Transport) Serve(h http.Handler) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handler = h
}

// Close ends all requests and waits until their handlers have returned.
func (t *Transport) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.stop(ErrClosed)
	t.workers.Close()
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	x := t.exchange(r)
	if err := t.serve(x); err != nil {
		x.end()
		return nil, err
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

// end releases what an exchange holds.
func (x *exchange) end() {
	x.unhook()
	x.answer.cancel(nil)
}

// serve starts an exchange on a goroutine.
func (t *Transport) serve(x *exchange) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	switch {
	case t.closed:
		return ErrClosed
	case t.handler == nil:
		return ErrNotServing
	}
	x.handler = t.handler
	t.workers.Start(x)
	return nil
}

// Do calls the handler and ends the answer; if the handler panicked, with an error.
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
