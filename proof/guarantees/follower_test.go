package guarantees_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/server/store"
)

// follower is a watching client: it lists and watches, and resumes where its watches end.
type follower struct {
	w        *world
	id       int
	client   *client
	selector selector
	random   *rand.Rand

	mu        sync.Mutex // guards at
	at        store.Revision
	stretches []*observation
	expired   int
}

// observation is what was received after one list, over any number of watches that resumed each other.
type observation struct {
	from, to store.Revision
	events   []seenEvent
	watches  int
}

func (f *follower) String() string { return fmt.Sprintf("watcher %d of %v", f.id, f.selector) }

func (f *follower) reached() store.Revision {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}

func (f *follower) reach(rev store.Revision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = rev
}

func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		s, ok := f.begin(ctx)
		if !ok {
			time.Sleep(again)
			continue
		}
		f.stretches = append(f.stretches, s)
		f.reach(s.to)
		for ctx.Err() == nil && f.resume(ctx, s) {
			time.Sleep(again)
		}
	}
}

// begin lists in one of the ways of clients.
func (f *follower) begin(ctx context.Context) (*observation, bool) {
	var o metav1.ListOptions
	switch f.random.IntN(3) {
	case 0:
		return f.stream(ctx)
	case 1:
		o.ResourceVersion = "0"
	}
	p, err := f.client.list(ctx, f.selector, o)
	if err != nil {
		return nil, false
	}
	f.w.keep(lists{"Filterable", f.selector, p.rev, p.items})
	return &observation{from: p.rev, to: p.rev}, true
}

// stream receives the initial events of a watch, up to the bookmark that ends them, and continues with the same watch.
func (f *follower) stream(ctx context.Context) (*observation, bool) {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	yes := true
	w, err := f.client.watch(ctx, f.selector, metav1.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	if err != nil {
		return nil, false
	}
	defer w.Stop()
	items := map[string]version{}
	for e := range w.ResultChan() {
		o, ok := e.Object.(object)
		switch {
		case !ok:
			return nil, false
		case e.Type == watch.Bookmark && o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true":
			s := &observation{from: revisionOf(o.GetResourceVersion())}
			s.to = s.from
			f.w.keep(lists{"Filterable", f.selector, s.from, items})
			f.reach(s.to)
			f.read(w, s)
			return s, true
		case e.Type != watch.Added:
			f.w.t.Errorf("Ordered: %v: %s before the end of the initial events", f, e.Type)
			return nil, false
		case o.GetAnnotations()[valueAnnotation] != "":
			items[o.GetName()] = version{factOf(o), revisionOf(o.GetResourceVersion())}
		}
	}
	return nil, false
}

// resume follows one more connection. It reports whether the next may continue from there.
func (f *follower) resume(ctx context.Context, s *observation) bool {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	w, err := f.client.watch(ctx, f.selector, metav1.ListOptions{ResourceVersion: s.to.String(), AllowWatchBookmarks: true})
	if err != nil {
		return !f.gone(err)
	}
	defer w.Stop()
	s.watches++
	return f.read(w, s)
}

func (f *follower) gone(err error) bool {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		f.expired++
		return true
	}
	return false
}

// read receives events, for a while. It reports whether another watch may continue from there.
func (f *follower) read(w watch.Interface, s *observation) bool {
	for left := 1 + f.random.IntN(200); left > 0; left-- {
		e, open := <-w.ResultChan()
		if !open {
			return true
		}
		if status, ok := e.Object.(*metav1.Status); ok {
			return !f.gone(&apierrors.StatusError{ErrStatus: *status})
		}
		o := e.Object.(object)
		rev := revisionOf(o.GetResourceVersion())
		switch {
		case e.Type == watch.Bookmark && rev < s.to:
			f.w.t.Errorf("Bookmarkable: %v: a bookmark at %d after %d", f, rev, s.to)
		case e.Type == watch.Bookmark:
			s.to = rev
		case rev < s.to:
			f.w.t.Errorf("Ordered: %v: %s %s at %d after %d", f, e.Type, o.GetName(), rev, s.to)
		case rev == s.to:
			f.w.t.Errorf("Unique, Bookmarkable: %v: %s %s at %d, which had been reached", f, e.Type, o.GetName(), rev)
		default:
			s.events = append(s.events, seenEvent{e.Type, o.GetName(), factOf(o), rev})
			s.to = rev
		}
		f.reach(s.to)
	}
	return true
}

// compareWith compares everything that was received with the store's log.
func (f *follower) compareWith(tr *logModel) (events int) {
	for _, s := range f.stretches {
		events += len(s.events)
		want := tr.events(f.selector, s.from, s.to)
		for i := range max(len(want), len(s.events)) {
			switch {
			case i >= len(s.events):
				f.w.t.Errorf("Reliable, Resumable: %v missed %v", f, want[i])
			case i >= len(want):
				f.w.t.Errorf("Filterable: %v saw %v too much", f, s.events[i])
			case want[i] != s.events[i]:
				f.w.t.Errorf("Reliable, Filterable: %v saw %v instead of %v", f, s.events[i], want[i])
			default:
				continue
			}
			break
		}
	}
	return events
}
