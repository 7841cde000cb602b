// Package inprocess carries HTTP requests to a handler in the same process, without a connection: for the loops that run
// beside the API server. It is the same API, with the same bytes, less the cost of a network.
//
// Every request runs on a goroutine of its own, which ends when the handler returns; a caller that closes the body, or
// whose context ends, ends the handler's context. Close waits for all of them.
package inprocess

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// Transport is an http.RoundTripper that calls a handler.
type Transport struct {
	handler http.Handler
	context func(context.Context) context.Context
	running sync.WaitGroup

	mu     sync.Mutex // guards closed
	closed bool
	stop   context.CancelCauseFunc
	ends   context.Context
}

// ErrClosed is what requests get after Close.
var ErrClosed = errors.New("the server in this process has been closed")

// New makes a transport to a handler. inContext, when not nil, adds what the handler shall know of the caller.
func New(h http.Handler, inContext func(context.Context) context.Context) *Transport {
	t := &Transport{handler: h, context: inContext}
	t.ends, t.stop = context.WithCancelCause(context.Background())
	return t
}

// Close ends all requests and waits until their handlers have returned.
func (t *Transport) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.stop(ErrClosed)
	t.running.Wait()
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	unhook := context.AfterFunc(t.ends, func() { cancel(ErrClosed) })
	answer := &answer{header: http.Header{}, started: make(chan struct{}), cancel: cancel}
	answer.wake.L = &answer.mu
	inner := r.Clone(ctx)
	if t.context != nil {
		inner = inner.WithContext(t.context(ctx))
	}
	if inner.Body == nil {
		inner.Body = http.NoBody
	}
	inner.RequestURI = r.URL.RequestURI()
	inner.RemoteAddr = "127.0.0.1:0"
	inner.Proto, inner.ProtoMajor, inner.ProtoMinor = "HTTP/2.0", 2, 0
	letGo := context.AfterFunc(ctx, answer.giveUp)
	t.running.Go(func() {
		defer unhook()
		defer cancel(nil)
		defer letGo()
		serve(t.handler, answer, inner)
	})
	t.mu.Unlock()
	defer t.mu.Lock()
	select {
	case <-answer.started:
		return answer.response(r), nil
	case <-r.Context().Done():
		cancel(nil)
		return nil, context.Cause(r.Context())
	}
}

// serve calls the handler and ends the answer, with an error if the handler gave up.
func serve(h http.Handler, a *answer, r *http.Request) {
	defer func() {
		var err error
		if p := recover(); p != nil {
			err = io.ErrUnexpectedEOF
		}
		a.finish(err)
	}()
	h.ServeHTTP(a, r)
}

// answer is what the handler writes to and the caller reads from.
type answer struct {
	header  http.Header
	started chan struct{}
	cancel  context.CancelCauseFunc

	mu     sync.Mutex // guards what follows
	wake   sync.Cond
	code   int
	begun  bool
	body   bytes.Buffer
	ended  bool
	err    error
	closed bool // by the reader
	over   bool // the handler's context has ended: nobody is waited for any more
}

// most is how much a handler may write ahead of a reader that does not read.
const most = 1 << 20

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(code int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.code == 0 {
		a.code = code
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.code == 0 {
		a.code = http.StatusOK
	}
	for a.begun && a.body.Len() > most && !a.closed && !a.over {
		a.wake.Wait()
	}
	if a.closed || a.over {
		return 0, io.ErrClosedPipe
	}
	n, err := a.body.Write(b)
	if a.body.Len() > most {
		a.beginLocked()
	}
	a.wake.Broadcast()
	return n, err
}

// Flush lets the caller see what has been written.
func (a *answer) Flush() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.beginLocked()
	a.wake.Broadcast()
}

func (a *answer) beginLocked() {
	if a.begun {
		return
	}
	if a.code == 0 {
		a.code = http.StatusOK
	}
	a.begun = true
	close(a.started)
}

// giveUp ends a write that waits for a reader who may never come.
func (a *answer) giveUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.wake.Broadcast()
}

func (a *answer) finish(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended, a.err = true, err
	a.beginLocked()
	a.wake.Broadcast()
}

func (a *answer) response(r *http.Request) *http.Response {
	a.mu.Lock()
	defer a.mu.Unlock()
	res := &http.Response{
		StatusCode: a.code, Status: http.StatusText(a.code), Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: a.header.Clone(), Body: (*reader)(a), Request: r, ContentLength: -1,
	}
	if a.ended {
		res.ContentLength = int64(a.body.Len())
	}
	return res
}

// reader is the caller's end of an answer.
type reader answer

// Read implements io.Reader.
func (r *reader) Read(b []byte) (int, error) {
	a := (*answer)(r)
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.body.Len() == 0 && !a.ended && !a.closed {
		a.wake.Wait()
	}
	switch {
	case a.closed:
		return 0, http.ErrBodyReadAfterClose
	case a.body.Len() > 0:
		n, err := a.body.Read(b)
		a.wake.Broadcast()
		return n, err
	case a.err != nil:
		return 0, a.err
	}
	return 0, io.EOF
}

// Close ends the handler's context if it is still running.
func (r *reader) Close() error {
	a := (*answer)(r)
	a.mu.Lock()
	a.closed = true
	a.wake.Broadcast()
	a.mu.Unlock()
	a.cancel(nil)
	return nil
}
