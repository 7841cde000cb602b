package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/server/store"
)

// lends checks whether a store can lend values. If it cannot, it must say so.
func lends(t *testing.T, s store.Store) bool {
	_, err := store.Scan(within(t), s, "/none/", 0, func([]store.Entry) { t.Error("an entry of an empty store") })
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Fatalf("scan: %v", err)
	}
	return err == nil
}

// scan copies what a scan lends, and checks that each run is in order.
func scan(t *testing.T, s store.Store, prefix string, rev store.Revision) (map[string]string, store.Revision) {
	t.Helper()
	var mu sync.Mutex
	got := make(map[string]string)
	at, err := store.Scan(within(t), s, prefix, rev, func(entries []store.Entry) {
		mu.Lock()
		defer mu.Unlock()
		for i, e := range entries {
			if i > 0 && entries[i-1].Key >= e.Key {
				t.Errorf("%s comes after %s", e.Key, entries[i-1].Key)
			}
			if _, twice := got[e.Key]; twice {
				t.Errorf("%s comes twice", e.Key)
			}
		}
		maps.Copy(got, state(entries))
	})
	if err != nil {
		t.Fatalf("scan %s at %d: %v", prefix, rev, err)
	}
	return got, at
}

var scanChecks = []check{
	{"a scan shows what a list shows at every revision", func(t *testing.T, s store.Store) {
		if !lends(t, s) {
			return
		}
		revs := []store.Revision{mustCreate(t, s, "/a/", "the shortest key"), mustCreate(t, s, "/b/1", "")}
		for i := range 300 { // more than one run
			key := fmt.Sprintf("/a/%03d", i*37%300)
			rev := mustCreate(t, s, key, "new "+key)
			if i%3 == 0 {
				rev = mustUpdate(t, s, key, "changed "+key, rev)
			}
			if i%7 == 0 {
				rev = mustDelete(t, s, key, rev)
			}
			if i%14 == 0 {
				rev = mustCreate(t, s, key, "") // an empty value is a value
			}
			if i%60 == 0 {
				revs = append(revs, rev)
			}
		}
		for _, prefix := range []string{"/", "/a/", "/b/", "/c/", "/a/12", ""} {
			for _, rev := range append(revs, 0) {
				got, at := scan(t, s, prefix, rev)
				page := mustList(t, s, prefix, store.ListOptions{Revision: rev})
				if want := state(page.Entries); !maps.Equal(got, want) || at != page.Revision {
					t.Errorf("scan of %q at %d has %d entries at %d, a list %d at %d", prefix, rev, len(got), at, len(want), page.Revision)
				}
			}
		}
	}},
	{"a scan shows one snapshot while writes and compactions go on", func(t *testing.T, s store.Store) {
		if !lends(t, s) {
			return
		}
		const keys = 300
		want := make(map[string]string)
		var last store.Revision
		for i := range keys {
			key := fmt.Sprintf("/a/%03d", i)
			last = mustCreate(t, s, key, "old")
			want[key] = "old@" + last.String()
		}
		stop := make(chan struct{})
		var writing sync.WaitGroup
		writing.Go(func() {
			rev := last
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					rev = mustUpdate(t, s, fmt.Sprintf("/a/%03d", keys-1), fmt.Sprint("new ", i), rev)
				}
			}
		})
		for i := range 20 {
			if got, at := scan(t, s, "/a/", last); !maps.Equal(got, want) || at != last {
				t.Errorf("scan %d shows another state", i)
			}
			if i == 10 {
				if err := s.Compact(within(t), last); err != nil {
					t.Errorf("compact: %v", err)
				}
			}
		}
		close(stop)
		writing.Wait()
	}},
	{"what is not there cannot be scanned", func(t *testing.T, s store.Store) {
		if !lends(t, s) {
			return
		}
		rev := mustCreate(t, s, "/a", "x")
		last := mustUpdate(t, s, "/a", "y", rev)
		if err := s.Compact(within(t), last); err != nil {
			t.Fatal(err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		for _, c := range []struct {
			ctx  context.Context
			rev  store.Revision
			want error
		}{{within(t), last + 1000, store.ErrFuture}, {within(t), rev, store.ErrCompacted}, {ended, 0, context.Canceled}} {
			_, err := store.Scan(c.ctx, s, "/", c.rev, func([]store.Entry) { t.Errorf("an entry at %d", c.rev) })
			if !errors.Is(err, c.want) {
				t.Errorf("scan at %d: %v, want %v", c.rev, err, c.want)
			}
		}
	}},
}
