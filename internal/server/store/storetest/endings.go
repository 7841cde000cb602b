package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

var expiringChecks = []check{
	{"an entry is deleted some time after its time to live, as a change", func(t *testing.T, s store.Store) {
		const ttl = 1100 * time.Millisecond
		start := time.Now()
		w := watch(t, s, "/", mustRevision(t, s))
		for i := range 5 {
			if _, err := s.Create(within(t), fmt.Sprintf("/a/%d", i), []byte("x"), ttl); err != nil {
				t.Fatal(err)
			}
		}
		kept := mustCreate(t, s, "/kept", "x")
		w.until("five deletions", func() bool { return len(w.events) == 11 })
		if time.Since(start) < ttl {
			t.Errorf("gone after %v", time.Since(start))
		}
		for _, e := range w.events[6:] {
			if e.Type != store.Delete || e.Revision <= kept {
				t.Errorf("event is %s", describe(e))
			}
		}
		if page := mustList(t, s, "/", store.ListOptions{}); len(page.Entries) != 1 {
			t.Errorf("%d entries are left", len(page.Entries))
		}
	}},
	{"an update sets a new time to live, or none", func(t *testing.T, s store.Store) {
		const short, long = 1100 * time.Millisecond, time.Hour
		start := mustRevision(t, s)
		var revs []store.Revision
		for _, key := range []string{"/longer", "/forever"} {
			rev, err := s.Create(within(t), key, []byte("x"), short)
			if err != nil {
				t.Fatal(err)
			}
			revs = append(revs, rev)
		}
		if _, err := s.Update(within(t), "/longer", []byte("y"), revs[0], long); err != nil {
			t.Fatal(err)
		}
		mustUpdate(t, s, "/forever", "y", revs[1])
		rev := mustCreate(t, s, "/shorter", "x")
		if _, err := s.Update(within(t), "/shorter", []byte("y"), rev, short); err != nil {
			t.Fatal(err)
		}
		w := watch(t, s, "/", start)
		w.until("a deletion", func() bool { return len(w.events) == 7 })
		if e := w.events[6]; e.Type != store.Delete || e.Key != "/shorter" {
			t.Errorf("first comes %s", describe(e))
		}
		mustGet(t, s, "/longer")
		mustGet(t, s, "/forever")
	}},
	{"a key that is deleted and created again has only its new time to live", func(t *testing.T, s store.Store) {
		start := mustRevision(t, s)
		for _, key := range []string{"/a", "/b"} {
			rev, err := s.Create(within(t), key, []byte("x"), 1100*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			if key == "/a" {
				mustDelete(t, s, key, rev)
				mustCreate(t, s, key, "stays")
			}
		}
		w := watch(t, s, "/", start)
		w.until("a deletion", func() bool { return len(w.events) == 5 })
		if e := w.events[4]; e.Type != store.Delete || e.Key != "/b" {
			t.Errorf("last comes %s", describe(e))
		}
		mustGet(t, s, "/a")
	}},
}

// calls returns every call of a store that may be refused.
func calls(s store.Store) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"create": func(ctx context.Context) error {
			_, err := s.Create(ctx, "/created", []byte("x"), 0)
			return err
		},
		"create with a ttl": func(ctx context.Context) error {
			_, err := s.Create(ctx, "/expiring", []byte("x"), time.Hour)
			return err
		},
		"get":       func(ctx context.Context) error { _, err := s.Get(ctx, "/a", store.GetOptions{}); return err },
		"stale get": func(ctx context.Context) error { _, err := s.Get(ctx, "/a", store.GetOptions{Stale: true}); return err },
		"list":      func(ctx context.Context) error { _, err := s.List(ctx, "/", store.ListOptions{}); return err },
		"stale list": func(ctx context.Context) error {
			_, err := s.List(ctx, "/", store.ListOptions{Stale: true})
			return err
		},
		"update":   func(ctx context.Context) error { _, err := s.Update(ctx, "/a", []byte("x"), 1, 0); return err },
		"delete":   func(ctx context.Context) error { _, err := s.Delete(ctx, "/a", 1); return err },
		"revision": func(ctx context.Context) error { _, err := s.Revision(ctx); return err },
		"compact":  func(ctx context.Context) error { return s.Compact(ctx, 1) },
		"size":     func(ctx context.Context) error { _, err := s.Size(ctx); return err },
		"watch": func(ctx context.Context) error {
			return s.Watch(ctx, "/", 0, func(store.Batch) error { return nil })
		},
	}
}

var endingChecks = []check{
	{"a call with a cancelled context returns the context's error and has no effect", func(t *testing.T, s store.Store) {
		rev := mustCreate(t, s, "/a", "x")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for name, call := range calls(s) {
			if err := call(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
		}
		unchanged(t, s, "/a", "x", rev)
	}},
	{"a call past its deadline returns the context's error", func(t *testing.T, s store.Store) {
		mustCreate(t, s, "/a", "x")
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		defer cancel()
		<-ctx.Done()
		for name, call := range calls(s) {
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}},
	{"a closed store refuses everything and can be closed again", func(t *testing.T, s store.Store) {
		mustCreate(t, s, "/a", "x")
		w := watch(t, s, "/", 0).started()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := w.reason(); !errors.Is(err, store.ErrClosed) {
			t.Errorf("the watch ended with %v", err)
		}
		for name, call := range calls(s) {
			if err := call(within(t)); !errors.Is(err, store.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}},
	{"calls in progress during Close succeed or return ErrClosed", func(t *testing.T, s store.Store) {
		mustCreate(t, s, "/a", "x")
		var wg, running sync.WaitGroup
		for range 2 {
			for name, call := range calls(s) {
				running.Add(1)
				wg.Go(func() {
					running.Done()
					for {
						err := call(within(t))
						if errors.Is(err, store.ErrClosed) {
							return
						}
						if errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("%s hangs", name)
							return
						}
					}
				})
			}
		}
		running.Wait()
		for range 20 {
			mustGet(t, s, "/a")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}},
}

var sizeChecks = []check{
	{"a value of 1 MiB can be written, read, listed and watched", func(t *testing.T, s store.Store) {
		value := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		start := mustRevision(t, s)
		rev, err := s.Create(within(t), "/a", value, 0)
		if err != nil {
			t.Fatal(err)
		}
		value[0] = 'x'
		if _, err = s.Update(within(t), "/a", value, rev, 0); err != nil {
			t.Fatal(err)
		}
		if got := mustGet(t, s, "/a"); !bytes.Equal(got.Value, value) {
			t.Error("get gives something else")
		}
		if got := mustList(t, s, "/", store.ListOptions{}); !bytes.Equal(got.Entries[0].Value, value) {
			t.Error("list gives something else")
		}
		w := watch(t, s, "/", start)
		w.until("two events", func() bool { return len(w.events) == 2 })
		if !bytes.Equal(w.events[1].Value, value) {
			t.Error("watch gives something else")
		}
	}},
	{"an empty value is a value", func(t *testing.T, s store.Store) {
		rev := mustCreate(t, s, "/a", "")
		unchanged(t, s, "/a", "", rev)
	}},
	{"a value that is too large is refused and has no other effect", func(t *testing.T, s store.Store) {
		rev := mustCreate(t, s, "/a", "x")
		large := make([]byte, 16<<20)
		if _, err := s.Create(within(t), "/b", large, 0); !errors.Is(err, store.ErrTooLarge) {
			t.Errorf("create: %v", err)
		}
		if _, err := s.Update(within(t), "/a", large, rev, 0); !errors.Is(err, store.ErrTooLarge) {
			t.Errorf("update: %v", err)
		}
		unchanged(t, s, "/a", "x", rev)
	}},
	{"a list may be larger than a message", func(t *testing.T, s store.Store) {
		value := string(bytes.Repeat([]byte("x"), 1<<20))
		for i := range 8 {
			mustCreate(t, s, fmt.Sprintf("/a/%d", i), value)
		}
		if page := mustList(t, s, "/a/", store.ListOptions{}); len(page.Entries) != 8 {
			t.Errorf("%d entries", len(page.Entries))
		}
		rev := mustRevision(t, s)
		if events := watch(t, s, "/a/", 1).upTo(rev); len(events) != 8 {
			t.Errorf("%d events", len(events))
		}
	}},
	{"Size returns the bytes that the store occupies", func(t *testing.T, s store.Store) {
		mustCreate(t, s, "/a", "some bytes")
		if size, err := s.Size(within(t)); err != nil || size < 10 {
			t.Errorf("size is %d, %v", size, err)
		}
	}},
}
