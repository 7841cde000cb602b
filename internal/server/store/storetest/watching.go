package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

// watching is a running watch. With each batch it checks what holds for every watch: events come in order, no event
// comes twice, and no batch contradicts an earlier one.
type watching struct {
	t      *testing.T
	cancel context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex
	changed chan struct{}
	events  []store.Event
	rev     store.Revision
	batches int
	err     error
}

func watch(t *testing.T, s store.Store, prefix string, after store.Revision) *watching {
	ctx, cancel := context.WithCancel(t.Context())
	w := &watching{t: t, cancel: cancel, ended: make(chan struct{}), changed: make(chan struct{}), rev: after}
	go func() {
		defer close(w.ended)
		err := s.Watch(ctx, prefix, after, w.take)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err = err
	}()
	t.Cleanup(func() {
		cancel()
		<-w.ended
	})
	return w
}

func (w *watching) take(b store.Batch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.rev
	atLast := make(map[string]bool) // keys that have changed at revision last; there may be several, but only in one batch
	for _, e := range b.Events {
		if e.Revision > last {
			clear(atLast)
		} else if e.Revision < last || len(atLast) == 0 || atLast[e.Key] {
			w.t.Errorf("Ordered, Unique: event %d of %s after revision %d", e.Revision, e.Key, last)
		}
		atLast[e.Key] = true
		if e.Type == store.Delete && len(e.Value) > 0 {
			w.t.Errorf("the deletion of %s carries a value", e.Key)
		}
		last = e.Revision
	}
	if b.Revision < last {
		w.t.Errorf("Progress: batch says %d, but %d was reached before", b.Revision, last)
	}
	if len(b.Events) > 0 { // a batch that only tells a revision may come while the test reads the events
		w.events = append(w.events, b.Events...)
	}
	w.rev = b.Revision
	w.batches++
	close(w.changed)
	w.changed = make(chan struct{})
	return nil
}

// until waits until the condition on the received events is true.
func (w *watching) until(what string, true_ func() bool) {
	w.t.Helper()
	timeout := time.After(checkTimeout)
	for {
		w.mu.Lock()
		done, changed := true_(), w.changed
		w.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-w.ended:
			w.t.Fatalf("the watch ended before %s: %v", what, w.err)
		case <-timeout:
			w.t.Fatalf("gave up waiting for %s; %d events up to revision %d", what, len(w.events), w.rev)
		}
	}
}

// started waits until the watch is established.
func (w *watching) started() *watching {
	w.t.Helper()
	w.until("the first batch", func() bool { return w.batches > 0 })
	return w
}

// upTo waits until every event up to rev has been received, and returns them.
func (w *watching) upTo(rev store.Revision) []store.Event {
	w.t.Helper()
	w.until("revision "+rev.String(), func() bool { return w.rev >= rev })
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events
}

// end cancels the watch and checks that it returns context.Canceled.
func (w *watching) end() {
	w.t.Helper()
	w.cancel()
	<-w.ended
	if !errors.Is(w.err, context.Canceled) {
		w.t.Errorf("a cancelled watch ended with %v", w.err)
	}
}

// reason waits until the watch ends by itself.
func (w *watching) reason() error {
	w.t.Helper()
	select {
	case <-w.ended:
	case <-time.After(checkTimeout):
		w.t.Fatal("the watch goes on")
	}
	return w.err
}

func equalEvents(t *testing.T, got, want []store.Event) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("Reliable: %d events, want %d", len(got), len(want))
	}
	for i := range want {
		g, w := got[i], want[i]
		if g.Type != w.Type || g.Key != w.Key || string(g.Value) != string(w.Value) || g.Revision != w.Revision {
			t.Fatalf("Reliable: event %d is %s, want %s", i, describe(g), describe(w))
		}
	}
}

func describe(e store.Event) string {
	if e.Type == store.Delete {
		return "delete " + e.Key + "@" + e.Revision.String()
	}
	return "put " + e.Key + "=" + string(e.Value[:min(len(e.Value), 40)]) + "@" + e.Revision.String()
}
