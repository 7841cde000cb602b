package inprocess

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
)

// answer is the http.ResponseWriter of the handler; the caller reads from it.
type answer struct {
	header  http.Header
	started chan struct{}
	context context.Context // of the handler
	cancel  context.CancelCauseFunc

	mu     sync.Mutex // guards everything below
	wake   sync.Cond
	code   int
	begun  bool
	body   bytes.Buffer
	ended  bool
	err    error
	closed bool // by the reader
	over   bool // the handler's context has ended: its writes do not wait any more
}

const (
	// most is how much a handler may write before the caller gets the head of the answer.
	most = 1 << 20
	// ahead is how much the handler may later write beyond what the caller has read. It is small, because a busy watch
	// would fill any space.
	ahead = 64 << 10
	// roomKept is the largest buffer that is kept once everything in it has been read.
	roomKept = 256 << 10
)

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
	a.waitLocked()
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

// waitLocked waits for a reader that is too far behind. The reader may never come, so the end of the handler's context
// ends the wait.
func (a *answer) waitLocked() {
	if !a.begun || a.body.Len() <= ahead {
		return
	}
	defer context.AfterFunc(a.context, a.giveUp)()
	for a.body.Len() > ahead && !a.closed && !a.over {
		a.wake.Wait()
	}
}

// Flush makes what has been written visible to the caller.
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

// giveUp ends a write that waits for a reader.
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
		Header: a.header, Body: (*reader)(a), Request: r, ContentLength: int64(a.body.Len()),
	}
	if !a.ended { // the handler still uses its header
		res.Header, res.ContentLength = a.header.Clone(), -1
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
		if a.body.Len() == 0 && a.body.Cap() > roomKept {
			a.body = bytes.Buffer{}
		}
		a.wake.Broadcast()
		return n, err
	case a.err != nil:
		return 0, a.err
	}
	return 0, io.EOF
}

// Close ends the handler's context if the handler is still running.
func (r *reader) Close() error {
	a := (*answer)(r)
	a.mu.Lock()
	a.closed = true
	a.wake.Broadcast()
	a.mu.Unlock()
	a.cancel(nil)
	return nil
}
