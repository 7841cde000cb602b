package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/server/store"
)

var snapshotChecks = []check{
	{"a list at a revision shows the state right after it", func(t *testing.T, s store.Store) {
		a := mustCreate(t, s, "/a", "1")
		b := mustCreate(t, s, "/b", "1")
		a2 := mustUpdate(t, s, "/a", "2", a)
		gone := mustDelete(t, s, "/b", b)
		b2 := mustCreate(t, s, "/b", "2")
		want := map[store.Revision]map[string]string{
			a:    {"/a": "1@" + a.String()},
			b:    {"/a": "1@" + a.String(), "/b": "1@" + b.String()},
			a2:   {"/a": "2@" + a2.String(), "/b": "1@" + b.String()},
			gone: {"/a": "2@" + a2.String()},
			b2:   {"/a": "2@" + a2.String(), "/b": "2@" + b2.String()},
		}
		for rev, w := range want {
			page := mustList(t, s, "/", store.ListOptions{Revision: rev})
			if got := state(page.Entries); !maps.Equal(got, w) || page.Revision != rev {
				t.Errorf("at %d: %v at %d, want %v", rev, got, page.Revision, w)
			}
		}
	}},
	{"all pages show one snapshot while writes go on", func(t *testing.T, s store.Store) {
		const keys = 53
		want := make(map[string]string)
		for i := range keys {
			key := fmt.Sprintf("/a/%03d", i)
			want[key] = "old@" + mustCreate(t, s, key, "old").String()
		}
		got := make(map[string]string)
		for page := range pages(t, s, "/a/", 10) {
			maps.Copy(got, state(page.Entries))
			if page.More && int(page.Remaining) != keys-len(got) {
				t.Errorf("%d remain after %d of %d", page.Remaining, len(got), keys)
			}
			disturb(t, s, len(got))
		}
		if !maps.Equal(got, want) {
			t.Errorf("pages show\n%v, want\n%v", got, want)
		}
	}},
	{"pages without a count end exactly, too", func(t *testing.T, s store.Store) {
		for i := range 20 {
			mustCreate(t, s, fmt.Sprintf("/a/%02d", i), "x")
		}
		for _, limit := range []int{1, 7, 10, 19, 20, 21} {
			from, got := "", 0
			for more := true; more; {
				page := mustList(t, s, "/a/", store.ListOptions{From: from, Limit: limit, Uncounted: true})
				if got += len(page.Entries); len(page.Entries) == 0 || len(page.Entries) > limit || page.More != (got < 20) {
					t.Fatalf("%d of a page of %d, more %v after %d", len(page.Entries), limit, page.More, got)
				}
				from, more = page.Entries[len(page.Entries)-1].Key+"\x00", page.More
			}
		}
	}},
	{"pages come in the order of keys and end exactly", func(t *testing.T, s store.Store) {
		var want []string
		for i := range 20 {
			key := fmt.Sprintf("/a/%02d", (i*7)%20)
			mustCreate(t, s, key, "x")
			want = append(want, key)
		}
		slices.Sort(want)
		for _, limit := range []int{1, 3, 10, 19, 20, 21} {
			var got []string
			for page := range pages(t, s, "/a/", limit) {
				if len(page.Entries) > limit || page.More != (len(got)+len(page.Entries) < len(want)) {
					t.Fatalf("limit %d: %d entries after %d, more %v", limit, len(page.Entries), len(got), page.More)
				}
				for _, e := range page.Entries {
					got = append(got, e.Key)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("limit %d: %v", limit, got)
			}
		}
	}},
	{"a page may begin at any key", func(t *testing.T, s store.Store) {
		for _, key := range []string{"/a/1", "/a/3", "/b/1"} {
			mustCreate(t, s, key, "x")
		}
		for from, want := range map[string]int{"": 2, "/": 2, "/a/1": 2, "/a/1\x00": 1, "/a/2": 1, "/a/3": 1, "/a/4": 0, "/b/1": 0, "/c": 0} {
			page := mustList(t, s, "/a/", store.ListOptions{From: from})
			if len(page.Entries) != want || page.More || page.Revision == 0 {
				t.Errorf("from %q: %v, want %d entries", from, page, want)
			}
		}
	}},
	{"the future cannot be listed", func(t *testing.T, s store.Store) {
		rev := mustCreate(t, s, "/a", "x")
		if _, err := s.List(within(t), "/", store.ListOptions{Revision: rev + 1000}); !errors.Is(err, store.ErrFuture) {
			t.Errorf("list in the future: %v", err)
		}
	}},
	{"a stale answer may be old but is never wrong", func(t *testing.T, s store.Store) {
		rev := mustCreate(t, s, "/a", "x")
		mustUpdate(t, s, "/a", "y", rev)
		for range 10 {
			page := mustList(t, s, "/", store.ListOptions{Stale: true})
			past := mustList(t, s, "/", store.ListOptions{Revision: page.Revision})
			if !maps.Equal(state(page.Entries), state(past.Entries)) {
				t.Errorf("stale list at %d: %v, want %v", page.Revision, state(page.Entries), state(past.Entries))
			}
		}
	}},
}

var prefixChecks = []check{
	{"a list contains exactly the keys that begin with its prefix", func(t *testing.T, s store.Store) {
		keys := []string{"/a", "/a/", "/a/b", "/a/b/c", "/a/bc", "/a0", "/ab/", "/ab/c", "/b", "/a/\xff", "/a/\xff\xff", "/a\xff"}
		for _, key := range keys {
			mustCreate(t, s, key, "x")
		}
		for _, prefix := range append(keys, "/", "/z", "/a/\xff\xff\xff") {
			var want []string
			for _, key := range keys {
				if len(key) >= len(prefix) && key[:len(prefix)] == prefix {
					want = append(want, key)
				}
			}
			slices.Sort(want)
			var got []string
			for _, e := range mustList(t, s, prefix, store.ListOptions{}).Entries {
				got = append(got, e.Key)
			}
			if !slices.Equal(got, want) {
				t.Errorf("below %q: %q, want %q", prefix, got, want)
			}
		}
	}},
	{"a watch gets exactly the changes of keys that begin with its prefix", func(t *testing.T, s store.Store) {
		start := mustRevision(t, s)
		var last store.Revision
		for _, key := range []string{"/a", "/a/", "/a/b", "/a0", "/ab/", "/ab/c", "/a/b/c"} {
			last = mustCreate(t, s, key, "x")
		}
		for prefix, want := range map[string]int{"/": 7, "/a": 7, "/a/": 3, "/a/b": 2, "/ab": 2, "/ab/": 2, "/z": 0} {
			if got := watch(t, s, prefix, start).upTo(last); len(got) != want {
				t.Errorf("below %q: %d events, want %d", prefix, len(got), want)
			}
		}
	}},
}

// pages reads a prefix page by page, at the revision of the first page.
func pages(t *testing.T, s store.Store, prefix string, limit int) func(yield func(store.Page) bool) {
	return func(yield func(store.Page) bool) {
		o := store.ListOptions{Limit: limit}
		for {
			page := mustList(t, s, prefix, o)
			if o.Revision != 0 && page.Revision != o.Revision {
				t.Fatalf("page at %d, want %d", page.Revision, o.Revision)
			}
			if !yield(page) || !page.More {
				return
			}
			o.Revision, o.From = page.Revision, page.Entries[len(page.Entries)-1].Key+"\x00"
		}
	}
}

// disturb changes, deletes and adds keys near the n-th.
func disturb(t *testing.T, s store.Store, n int) {
	t.Helper()
	for _, e := range mustList(t, s, "/a/", store.ListOptions{}).Entries {
		switch {
		case e.Key == fmt.Sprintf("/a/%03d", n+3):
			mustUpdate(t, s, e.Key, "new", e.Revision)
		case e.Key == fmt.Sprintf("/a/%03d", n+1):
			mustDelete(t, s, e.Key, e.Revision)
		}
	}
	mustCreate(t, s, fmt.Sprintf("/a/%03d+", n+5), "new")
}
