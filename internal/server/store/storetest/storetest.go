// Package storetest is the conformance suite of package store.
//
// Run checks an implementation of store.Store against the guarantees of package store, with one subtest for each, under
// the name that it has there. RunDurable does the same for what must survive the process. The tests of an
// implementation call both, or only Run if it does not keep data.
package storetest

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

// checkTimeout is how long a check waits for an event or an answer. It says nothing about how fast a store must be.
const checkTimeout = 30 * time.Second

// check is one statement about a new, empty store.
type check struct {
	sentence string
	holds    func(t *testing.T, s store.Store)
}

var guarantees = []struct {
	name   string
	checks []check
}{
	{"Atomic", atomicChecks},
	{"Monotonic", monotonicChecks},
	{"Linearizable", linearizableChecks},
	{"Snapshot", snapshotChecks},
	{"Prefix", prefixChecks},
	{"Ordered Unique Reliable", watchChecks},
	{"Progress", progressChecks},
	{"Compaction", compactionChecks},
	{"Expiring", expiringChecks},
	{"Ending", endingChecks},
	{"Sizes", sizeChecks},
	{"Model", modelChecks},
}

// Run checks everything but durability. Open returns a new, empty store for each check; Run closes it.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, g := range guarantees {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.checks {
				t.Run(c.sentence, func(t *testing.T) {
					t.Parallel()
					s := open(t)
					t.Cleanup(func() {
						if err := s.Close(); err != nil {
							t.Errorf("close: %v", err)
						}
					})
					c.holds(t, s)
				})
			}
		})
	}
}

// RunDurable checks that acknowledged writes are there after the store was closed and opened again in the same
// directory.
func RunDurable(t *testing.T, open func(t *testing.T, dir string) store.Store) {
	t.Run("Durable", func(t *testing.T) {
		for _, c := range durableChecks {
			t.Run(c.sentence, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				c.holds(t, func() store.Store { return open(t, dir) })
			})
		}
	})
}

// within returns a context that ends the check if the store does not answer.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), checkTimeout)
	t.Cleanup(cancel)
	return ctx
}

func mustCreate(t *testing.T, s store.Store, key, value string) store.Revision {
	t.Helper()
	rev, err := s.Create(within(t), key, []byte(value), 0)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func mustUpdate(t *testing.T, s store.Store, key, value string, expect store.Revision) store.Revision {
	t.Helper()
	rev, err := s.Update(within(t), key, []byte(value), expect, 0)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func mustDelete(t *testing.T, s store.Store, key string, expect store.Revision) store.Revision {
	t.Helper()
	rev, err := s.Delete(within(t), key, expect)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func mustGet(t *testing.T, s store.Store, key string) store.Entry {
	t.Helper()
	e, err := s.Get(within(t), key, store.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func mustList(t *testing.T, s store.Store, prefix string, o store.ListOptions) store.Page {
	t.Helper()
	page, err := s.List(within(t), prefix, o)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func mustRevision(t *testing.T, s store.Store) store.Revision {
	t.Helper()
	rev, err := s.Revision(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

// seeded returns a source of random numbers, and logs its seed.
func seeded(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// state is the content of a page in a form that can be compared and printed.
func state(entries []store.Entry) map[string]string {
	m := make(map[string]string, len(entries))
	for _, e := range entries {
		m[e.Key] = string(e.Value) + "@" + e.Revision.String()
	}
	return m
}
