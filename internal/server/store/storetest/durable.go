package storetest

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

type durableCheck struct {
	sentence string
	holds    func(t *testing.T, open func() store.Store)
}

var durableChecks = []durableCheck{
	{"entries, history and revision are there after the store was opened again", func(t *testing.T, open func() store.Store) {
		s := open()
		log := someHistory(t, s)
		for i := range 100 {
			mustCreate(t, s, fmt.Sprintf("/a/%d", i), "x")
		}
		rev := mustRevision(t, s)
		want := state(mustList(t, s, "/", store.ListOptions{}).Entries)
		mustClose(t, s)

		s = open()
		defer mustClose(t, s)
		if now := mustRevision(t, s); now < rev {
			t.Errorf("Monotonic: revision %d after %d", now, rev)
		}
		if got := state(mustList(t, s, "/", store.ListOptions{}).Entries); !maps.Equal(got, want) {
			t.Errorf("there is\n%v, want\n%v", got, want)
		}
		equalEvents(t, watch(t, s, "/h/", log[0].Revision).upTo(rev), log[1:])
		if again := mustCreate(t, s, "/b", "x"); again <= rev {
			t.Errorf("Monotonic: revision %d after %d", again, rev)
		}
	}},
	{"entries expire after the store was opened again", func(t *testing.T, open func() store.Store) {
		s := open()
		rev, err := s.Create(within(t), "/a", []byte("x"), 2*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)

		s = open()
		defer mustClose(t, s)
		w := watch(t, s, "/", rev)
		w.until("the deletion", func() bool { return len(w.events) == 1 })
		if w.events[0].Type != store.Delete {
			t.Errorf("event is %s", describe(w.events[0]))
		}
	}},
}

func mustClose(t *testing.T, s store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
