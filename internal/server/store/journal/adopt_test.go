package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
)

func TestAdoptedEntriesKeepTheirRevisionsAndTheirTime(t *testing.T) {
	from := memory.New(memory.Options{})
	defer from.Close()
	for i := range 2500 {
		if _, err := from.Create(t.Context(), fmt.Sprintf("/registry/pods/%d", i), []byte(fmt.Sprint("value ", i)), 0); err != nil {
			t.Fatal(err)
		}
	}
	brief, err := from.Create(t.Context(), "/registry/events/brief", []byte("brief"), 0)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir() + "/journal"
	a := Adoption{From: from, Prefix: "/", Life: func(key string) time.Duration {
		if strings.Contains(key, "/events/") {
			return 100 * time.Millisecond
		}
		return 0
	}}
	ended, cancel := context.WithCancel(t.Context())
	a.Told = func(int64, int64) { cancel() }
	if err := Adopt(ended, dir, a); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if there, err := Exists(dir); there || err != nil {
		t.Errorf("after half of it there is a log: %v, %v", there, err)
	}
	var told []int64
	a.Told = func(done, left int64) { told = append(told, done+left) }
	if err := Adopt(t.Context(), dir, a); err != nil {
		t.Fatal(err)
	}
	if len(told) != 3 || told[0] != 2501 {
		t.Errorf("it told of %v entries", told)
	}
	if err := Adopt(t.Context(), dir, a); err == nil || !strings.Contains(err.Error(), "there is a log") {
		t.Errorf("once more: %v", err)
	}
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	gone := make(chan struct{})
	go s.Watch(t.Context(), "/", brief, func(b store.Batch) error {
		for _, e := range b.Events {
			if e.Type == store.Delete && e.Key == "/registry/events/brief" {
				close(gone)
			}
		}
		return nil
	})
	want, err := from.List(t.Context(), "/registry/pods/", store.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.List(t.Context(), "/registry/pods/", store.ListOptions{})
	if err != nil || len(got.Entries) != len(want.Entries) {
		t.Fatalf("there are %d entries, %v", len(got.Entries), err)
	}
	for i, e := range want.Entries {
		if g := got.Entries[i]; g.Key != e.Key || g.Revision != e.Revision || string(g.Value) != string(e.Value) {
			t.Errorf("%v became %v", e, g)
		}
	}
	<-gone
	if err := s.Watch(t.Context(), "/", brief-1, func(store.Batch) error { return nil }); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("a watch from before: %v", err)
	}
}
