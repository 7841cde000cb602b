package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

var atomicChecks = []check{
	{"create of an existing key changes nothing", func(t *testing.T, s store.Store) {
		rev := mustCreate(t, s, "/a", "one")
		if _, err := s.Create(within(t), "/a", []byte("two"), 0); !errors.Is(err, store.ErrExists) {
			t.Errorf("second create: %v", err)
		}
		unchanged(t, s, "/a", "one", rev)
	}},
	{"update at another revision changes nothing and returns the current entry", func(t *testing.T, s store.Store) {
		first := mustCreate(t, s, "/a", "one")
		rev := mustUpdate(t, s, "/a", "two", first)
		for _, expect := range []store.Revision{0, first, rev + 1} {
			_, err := s.Update(within(t), "/a", []byte("three"), expect, 0)
			conflicts(t, err, "/a", "two", expect, rev)
		}
		unchanged(t, s, "/a", "two", rev)
	}},
	{"delete at another revision changes nothing and returns the current entry", func(t *testing.T, s store.Store) {
		first := mustCreate(t, s, "/a", "one")
		rev := mustUpdate(t, s, "/a", "two", first)
		for _, expect := range []store.Revision{0, first, rev + 1} {
			_, err := s.Delete(within(t), "/a", expect)
			conflicts(t, err, "/a", "two", expect, rev)
		}
		unchanged(t, s, "/a", "two", rev)
	}},
	{"a missing key cannot be read, updated or deleted", func(t *testing.T, s store.Store) {
		rev := mustDelete(t, s, "/gone", mustCreate(t, s, "/gone", "x"))
		for _, key := range []string{"/never", "/gone"} {
			_, getErr := s.Get(within(t), key, store.GetOptions{})
			_, staleErr := s.Get(within(t), key, store.GetOptions{Stale: true})
			_, updateErr := s.Update(within(t), key, []byte("x"), rev, 0)
			_, zeroErr := s.Update(within(t), key, []byte("x"), 0, 0)
			_, deleteErr := s.Delete(within(t), key, rev)
			for verb, err := range map[string]error{"get": getErr, "stale get": staleErr, "update": updateErr, "update at zero": zeroErr, "delete": deleteErr} {
				if !errors.Is(err, store.ErrNotFound) {
					t.Errorf("%s %s: %v", verb, key, err)
				}
			}
		}
		if now := mustRevision(t, s); now != rev {
			t.Errorf("revision went from %d to %d", rev, now)
		}
	}},
	{"a deleted key can be created again", func(t *testing.T, s store.Store) {
		deleted := mustDelete(t, s, "/a", mustCreate(t, s, "/a", "one"))
		if again := mustCreate(t, s, "/a", "two"); again <= deleted {
			t.Errorf("created at %d, deleted at %d", again, deleted)
		}
	}},
	{"a create takes effect only while its conditions hold", func(t *testing.T, s store.Store) {
		gone := mustCreate(t, s, "/gone", "x")
		mustDelete(t, s, "/gone", gone)
		first := mustCreate(t, s, "/other", "one")
		rev := mustUpdate(t, s, "/other", "two", first)
		second := mustCreate(t, s, "/second", "x")
		for _, wrong := range [][]store.Condition{
			{{Key: "/other", Revision: first}}, {{Key: "/other", Revision: rev + 1}}, {{Key: "/gone", Revision: gone}}, {{Key: "/never", Revision: rev}},
			{{Key: "/other", Revision: rev}, {Key: "/second", Revision: rev}},
		} {
			if _, err := s.Create(within(t), "/a", []byte("x"), 0, wrong...); !errors.Is(err, store.ErrCondition) {
				t.Errorf("create on %v: %v", wrong, err)
			}
			if _, err := s.Create(within(t), "/second", []byte("y"), time.Hour, wrong...); !errors.Is(err, store.ErrExists) {
				t.Errorf("create of an existing key on %v: %v", wrong, err)
			}
		}
		if now := mustRevision(t, s); now != second {
			t.Errorf("revision went from %d to %d", second, now)
		}
		right := []store.Condition{{Key: "/other", Revision: rev}, {Key: "/second", Revision: second}}
		made, err := s.Create(within(t), "/a", []byte("x"), 0, right...)
		if err != nil {
			t.Fatal(err)
		}
		unchanged(t, s, "/a", "x", made)
	}},
	{"no create on a condition comes after the change that ends it", func(t *testing.T, s store.Store) {
		for round := range 10 {
			other := fmt.Sprintf("/other/%d", round)
			rev := mustCreate(t, s, other, "open")
			ended := make(chan store.Revision, 1)
			race(t, 8, func(i int) error {
				if i == 0 {
					end, err := s.Delete(within(t), other, rev)
					ended <- end
					return err
				}
				_, err := s.Create(within(t), fmt.Sprintf("/a/%d/%d", round, i), nil, 0, store.Condition{Key: other, Revision: rev})
				return err
			}, store.ErrCondition)
			end := <-ended
			for _, e := range mustList(t, s, fmt.Sprintf("/a/%d/", round), store.ListOptions{}).Entries {
				if e.Revision > end {
					t.Fatalf("%s was created at %d, and its condition ended at %d", e.Key, e.Revision, end)
				}
			}
		}
	}},
	{"one of many concurrent creates wins", func(t *testing.T, s store.Store) {
		for round := range 10 {
			key := fmt.Sprintf("/a/%d", round)
			wins := race(t, 8, func(i int) error {
				_, err := s.Create(within(t), key, []byte(strconv.Itoa(i)), 0)
				return err
			}, store.ErrExists)
			if wins != 1 {
				t.Fatalf("%d creates won", wins)
			}
		}
	}},
	{"one of many concurrent writers at the same revision wins", func(t *testing.T, s store.Store) {
		for round := range 10 {
			key := fmt.Sprintf("/a/%d", round)
			rev := mustCreate(t, s, key, "x")
			wins := race(t, 8, func(i int) error {
				if i%2 == 0 {
					_, err := s.Delete(within(t), key, rev)
					return err
				}
				_, err := s.Update(within(t), key, []byte(strconv.Itoa(i)), rev, 0)
				return err
			}, store.ErrConflict, store.ErrNotFound)
			if wins != 1 {
				t.Fatalf("%d writers won", wins)
			}
		}
	}},
	{"concurrent increments are all counted", func(t *testing.T, s store.Store) {
		const writers, each = 8, 25
		mustCreate(t, s, "/count", "0")
		race(t, writers, func(int) error {
			for range each {
				if err := increment(t, s, "/count"); err != nil {
					return err
				}
			}
			return nil
		})
		if got := string(mustGet(t, s, "/count").Value); got != strconv.Itoa(writers*each) {
			t.Errorf("counted %s of %d", got, writers*each)
		}
	}},
	{"the caller may reuse the slice of a value", func(t *testing.T, s store.Store) {
		buffer := []byte("one")
		rev, err := s.Create(within(t), "/a", buffer, 0)
		if err != nil {
			t.Fatal(err)
		}
		copy(buffer, "two")
		if _, err = s.Update(within(t), "/a", buffer, rev, 0); err != nil {
			t.Fatal(err)
		}
		copy(buffer, "xxx")
		if got := mustGet(t, s, "/a"); string(got.Value) != "two" {
			t.Errorf("value is %q", got.Value)
		}
		if got := mustList(t, s, "/a", store.ListOptions{Revision: rev}).Entries; string(got[0].Value) != "one" {
			t.Errorf("value was %q", got[0].Value)
		}
	}},
}

var monotonicChecks = []check{
	{"every write gets a greater revision and the entry carries it", func(t *testing.T, s store.Store) {
		last := mustRevision(t, s)
		grows := func(rev store.Revision) store.Revision {
			t.Helper()
			if rev <= last {
				t.Fatalf("revision %d after %d", rev, last)
			}
			last = rev
			return rev
		}
		for i := range 20 {
			key := fmt.Sprintf("/a/%d", i)
			rev := grows(mustCreate(t, s, key, "x"))
			rev = grows(mustUpdate(t, s, key, "y", rev))
			unchanged(t, s, key, "y", rev)
			grows(mustDelete(t, s, key, rev))
		}
		if now := mustRevision(t, s); now != last {
			t.Errorf("revision is %d after a write at %d", now, last)
		}
	}},
	{"reads do not change the revision", func(t *testing.T, s store.Store) {
		rev := mustCreate(t, s, "/a", "x")
		mustGet(t, s, "/a")
		if page := mustList(t, s, "/", store.ListOptions{}); page.Revision != rev {
			t.Errorf("list shows revision %d, want %d", page.Revision, rev)
		}
		if now := mustRevision(t, s); now != rev {
			t.Errorf("revision is %d, want %d", now, rev)
		}
	}},
	{"an empty store has a revision", func(t *testing.T, s store.Store) {
		if rev := mustRevision(t, s); rev < 1 {
			t.Errorf("revision is %d", rev)
		}
		if page := mustList(t, s, "/", store.ListOptions{}); page.Revision < 1 || len(page.Entries) > 0 || page.More {
			t.Errorf("page is %+v", page)
		}
	}},
}

var linearizableChecks = []check{
	{"revision, get and list see every acknowledged write", func(t *testing.T, s store.Store) {
		race(t, 8, func(i int) error {
			key := fmt.Sprintf("/a/%d", i)
			rev := mustCreate(t, s, key, "0")
			for n := range 25 {
				value := strconv.Itoa(n)
				rev = mustUpdate(t, s, key, value, rev)
				if now := mustRevision(t, s); now < rev {
					return fmt.Errorf("revision %d after a write at %d", now, rev)
				}
				if e := mustGet(t, s, key); e.Revision != rev || string(e.Value) != value {
					return fmt.Errorf("got %s at %d, want %s at %d", e.Value, e.Revision, value, rev)
				}
				page := mustList(t, s, key, store.ListOptions{})
				if page.Revision < rev || len(page.Entries) != 1 || page.Entries[0].Revision != rev {
					return fmt.Errorf("listed %v, want %s at %d", page, value, rev)
				}
			}
			return nil
		})
	}},
	{"who has seen an event reads no older state", func(t *testing.T, s store.Store) {
		start := mustRevision(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var older error
		var seen atomic.Int64
		var watcher sync.WaitGroup
		watcher.Go(func() {
			_ = s.Watch(ctx, "/", start, func(b store.Batch) error {
				for _, e := range b.Events {
					if older = readsNotOlder(ctx, s, e); older != nil {
						return older
					}
				}
				seen.Store(int64(b.Revision))
				return nil
			})
			cancel()
		})
		race(t, 8, func(i int) error {
			key := fmt.Sprintf("/k/%d", i)
			awaitSeen := func(rev store.Revision) store.Revision {
				for seen.Load() < int64(rev) && ctx.Err() == nil {
					runtime.Gosched()
				}
				return rev
			}
			for range 50 { // no write of a key overtakes the reads after the event of the last
				rev := awaitSeen(mustCreate(t, s, key, "x"))
				awaitSeen(mustDelete(t, s, key, rev))
			}
			return nil
		})
		cancel()
		watcher.Wait()
		if older != nil && !errors.Is(older, context.Canceled) {
			t.Error(older)
		}
	}},
}

// readsNotOlder reads the key of an event, which nobody has changed since.
func readsNotOlder(ctx context.Context, s store.Store, e store.Event) error {
	entry, err := s.Get(ctx, e.Key, store.GetOptions{})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if exists := err == nil; exists != (e.Type == store.Put) {
		return fmt.Errorf("after the event of %d, got %s of revision %d: %v", e.Revision, e.Key, entry.Revision, err)
	}
	page, err := s.List(ctx, e.Key, store.ListOptions{})
	if err != nil {
		return err
	}
	if page.Revision < e.Revision {
		return fmt.Errorf("after the event of %d, listed %s at %d", e.Revision, e.Key, page.Revision)
	}
	return nil
}

// unchanged checks a key's entry, and that the store's revision is still that of the key.
func unchanged(t *testing.T, s store.Store, key, value string, rev store.Revision) {
	t.Helper()
	if e := mustGet(t, s, key); e.Key != key || string(e.Value) != value || e.Revision != rev {
		t.Errorf("entry is %s=%s@%d, want %s=%s@%d", e.Key, e.Value, e.Revision, key, value, rev)
	}
	if now := mustRevision(t, s); now != rev {
		t.Errorf("revision is %d, want %d", now, rev)
	}
}

func conflicts(t *testing.T, err error, key, value string, expect, rev store.Revision) {
	t.Helper()
	var conflict *store.ConflictError
	if !errors.Is(err, store.ErrConflict) || !errors.As(err, &conflict) {
		t.Fatalf("no conflict, but %v", err)
	}
	e := conflict.Current
	if conflict.Key != key || conflict.Want != expect || e.Key != key || string(e.Value) != value || e.Revision != rev {
		t.Errorf("conflict is %+v, want %s=%s@%d", conflict, key, value, rev)
	}
}

// race runs n calls at once and returns how many succeeded. The others must fail with one of the errors in losers.
func race(t *testing.T, n int, run func(i int) error, losers ...error) int {
	t.Helper()
	var wg sync.WaitGroup
	var wins atomic.Int64
	for i := range n {
		wg.Go(func() {
			err := run(i)
			if err == nil {
				wins.Add(1)
				return
			}
			for _, loser := range losers {
				if errors.Is(err, loser) {
					return
				}
			}
			t.Error(err)
		})
	}
	wg.Wait()
	return int(wins.Load())
}

func increment(t *testing.T, s store.Store, key string) error {
	e, err := s.Get(within(t), key, store.GetOptions{})
	for err == nil {
		n, _ := strconv.Atoi(string(e.Value))
		_, err = s.Update(within(t), key, []byte(strconv.Itoa(n+1)), e.Revision, 0)
		var conflict *store.ConflictError
		if !errors.As(err, &conflict) {
			return err
		}
		e, err = conflict.Current, nil
	}
	return err
}
