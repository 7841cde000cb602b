package registry

import (
	"testing"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// script is a feed with given events and revisions.
type script struct {
	events []*watchcache.Event
	rev    store.Revision
}

func (s *script) Next() (*watchcache.Event, bool, error) {
	if len(s.events) == 0 {
		return nil, false, nil
	}
	e := s.events[0]
	s.events = s.events[1:]
	return e, true, nil
}

func (s *script) Wake() <-chan struct{}    { return closed }
func (s *script) Revision() store.Revision { return s.rev }
func (s *script) Close()                   {}

func added(key string, rev store.Revision) *watchcache.Event {
	o, _ := watchcache.NewObject(watchcache.KindOptions{Prefix: "/registry/x/"}, store.Entry{Key: "/registry/x/" + key, Revision: rev})
	return &watchcache.Event{Type: watchcache.Added, Object: o, Revision: rev}
}

func TestABookmarkIsNeverBelowTheLastEvent(t *testing.T) {
	feed := &script{events: []*watchcache.Event{added("a", 5)}, rev: 4}
	w := &Watcher{feed: feed}
	if rev, ok := w.Bookmark(); !ok || rev != 4 {
		t.Errorf("before the event: %d, %v", rev, ok)
	}
	if _, ok, err := w.Next(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if rev, ok := w.Bookmark(); ok {
		t.Errorf("the event was at 5, and a bookmark says %d", rev)
	}
	feed.rev = 5
	if rev, ok := w.Bookmark(); !ok || rev != 5 {
		t.Errorf("once all of 5 is out: %d, %v", rev, ok)
	}
}

func TestSkippedEventsDoNotKeepAWatchFromOtherWork(t *testing.T) {
	feed := &script{}
	for i := range 3 * maxSkipped {
		feed.events = append(feed.events, added("other", store.Revision(i+1)))
	}
	feed.events = append(feed.events, added("wanted", 1_000_000))
	w := &Watcher{feed: feed, selection: Selection{Name: "wanted"}}
	looks := 0
	for {
		e, ok, err := w.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			if e.Object.Name() != "wanted" {
				t.Errorf("it sees %s", e.Object.Name())
			}
			break
		}
		looks++
	}
	if looks != 3 {
		t.Errorf("it looked around %d times", looks)
	}
}
