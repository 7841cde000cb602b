package h2

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// hold is a handler that says how many requests have been started, and keeps them.
type hold struct {
	started atomic.Int32
	release chan struct{}
	waits   chan struct{} // those that get something from it say that they wait for their turn
}

func (h *hold) serve(w http.ResponseWriter, r *http.Request) {
	h.started.Add(1)
	select {
	case <-h.waits:
		Queued(wrapped{w})
	case <-h.release:
	}
	<-h.release
}

// wrapped hides the writer as a middleware does.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestAConnectionStartsFewRequestsThatDoNotWaitYet(t *testing.T) {
	most, takes := mostStarting, startTakes
	t.Cleanup(func() { mostStarting, startTakes = most, takes })
	mostStarting, startTakes = 2, time.Hour
	h := &hold{release: make(chan struct{}), waits: make(chan struct{})}
	w := serve(t, Options{}, h.serve)
	b := w.bare()
	for i := range uint32(9) {
		b.ask(1+2*i, true)
	}
	for want := int32(2); want <= 6; want++ {
		eventually(t, func() bool { return h.started.Load() == want })
		h.waits <- struct{}{}
	}
	eventually(t, func() bool { return h.started.Load() == 7 })
	b.must(b.WriteRSTStream(15, http2.ErrCodeCancel)) // the eighth, which is not started then
	b.must(b.WritePing(false, [8]byte{1}))
	b.until(func(f http2.Frame) bool { p, ok := f.(*http2.PingFrame); return ok && p.IsAck() })
	close(h.release)
	eventually(t, func() bool { return h.started.Load() == 8 })
}

func TestARequestThatTakesLongKeepsNobodyFromStarting(t *testing.T) {
	h := &hold{release: make(chan struct{})}
	w := serve(t, Options{}, h.serve)
	b := w.bare()
	for i := range uint32(50) {
		b.ask(1+2*i, true)
	}
	eventually(t, func() bool { return h.started.Load() == 50 })
	close(h.release)
}

func TestAnEndedConnectionStartsNothing(t *testing.T) {
	h := &hold{release: make(chan struct{})}
	defer close(h.release)
	w := serve(t, Options{}, h.serve)
	b := w.bare()
	for i := range uint32(50) {
		b.ask(1+2*i, true)
	}
	eventually(t, func() bool { return h.started.Load() > 0 })
	b.net.Close()
}

// eventually waits until something is true.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it has not become true")
		}
	}
}
