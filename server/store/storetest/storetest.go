// Package storetest checks that a store keeps its word.
//
// Run holds an implementation of store.Store against the guarantees that package store gives, one subtest for each,
// under the name it has there. RunDurable does the same for what must outlive the process. An implementation passes if
// its own tests call both (the second only if it keeps data at all).
package storetest

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace/millrace/server/store"
)

// checkTimeout is how long a check waits for an event or an answer that has to come. It does not decide whether a store is fast enough.
const checkTimeout = 30 * time.Second

// A check is one sentence about a fresh, empty store.
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

// Run checks everything but durability. Open makes a fresh, empty store for each check; Run closes it.
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

// RunDurable checks that what was acknowledged is there after the store was closed and opened again in the same folder.
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

// within gives a context that ends the check if the store does not answer.
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

// seeded gives a source of random numbers whose seed the test's log shows.
func seeded(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// state is what a page shows, in a form that compares and prints well.
func state(entries []store.Entry) map[string]string {
	m := make(map[string]string, len(entries))
	for _, e := range entries {
		m[e.Key] = string(e.Value) + "@" + e.Revision.String()
	}
	return m
}
