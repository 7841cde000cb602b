package tree

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/randomly"
)

// entry is an item; two entries with the same key can be distinguished.
type entry struct{ key string }

type entries = Tree[string, *entry]

func newEntries() entries {
	return New(func(e **entry, key string) int { return strings.Compare((*e).key, key) })
}

// check fails if the tree differs from the map, or if its structure is invalid.
func check(tb testing.TB, t entries, want map[string]*entry) {
	tb.Helper()
	keys := slices.Sorted(maps.Keys(want))
	var got []string
	t.All(func(e *entry) bool {
		got = append(got, e.key)
		if want[e.key] != e {
			tb.Fatalf("key %s has another item", e.key)
		}
		return true
	})
	if !slices.Equal(got, keys) || t.Len() != len(want) {
		tb.Fatalf("tree has %d of %d keys: %q, want %q", len(got), t.Len(), got, keys)
	}
	for i, k := range keys {
		e, ok := t.Get(k)
		before := t.Before(func(e **entry) bool { return (*e).key >= k })
		behind := t.Before(func(e **entry) bool { return (*e).key >= k+"!" })
		if !ok || e != want[k] || before != i || behind != i+1 {
			tb.Fatalf("key %s is at %d, want %d", k, before, i)
		}
		checkFrom(tb, t, k, keys[i:])
		checkFrom(tb, t, k+"!", keys[i+1:])
	}
	if t.root != nil {
		checkNode(tb, t.root, true)
	}
}

// checkFrom compares the first few items from a key on.
func checkFrom(tb testing.TB, t entries, from string, want []string) {
	tb.Helper()
	want = want[:min(len(want), 70)]
	if len(want) == 0 {
		return
	}
	got := make([]string, 0, len(want))
	t.Ascend(from, func(e *entry) bool {
		got = append(got, e.key)
		return len(got) < len(want)
	})
	if !slices.Equal(got, want) {
		tb.Fatalf("from %s on there are %q, want %q", from, got, want)
	}
}

func checkNode(tb testing.TB, n *node[*entry], root bool) (depth int) {
	tb.Helper()
	if len(n.items) > maxItems || root && len(n.items) == 0 {
		tb.Fatalf("node has %d items", len(n.items))
	}
	count := n.count
	if n.recount(); n.count != count {
		tb.Fatalf("node counts %d, has %d", count, n.count)
	}
	if n.children == nil {
		return 1
	}
	if len(n.children) != len(n.items)+1 {
		tb.Fatalf("node has %d items and %d children", len(n.items), len(n.children))
	}
	for i, c := range n.children {
		d := checkNode(tb, c, false)
		if i > 0 && d != depth {
			tb.Fatal("leaves are at different depths")
		}
		depth = d
	}
	return depth + 1
}

func TestTreeIsASortedSetWhoseCopiesNeverChange(t *testing.T) {
	seed := randomly.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	type frozen struct {
		tree entries
		want map[string]*entry
	}
	var copies []frozen
	tr := newEntries()
	want := map[string]*entry{}
	for i := range 3000 { // first in ascending order, as in a fill
		k := fmt.Sprintf("k%05d", i)
		want[k] = &entry{k}
		tr.Set(k, want[k])
	}
	for step := range 40_000 {
		n := 6000
		if step > 20_000 {
			n = 20000 // mostly deletions: see below
		}
		k := fmt.Sprintf("k%05d", r.IntN(n))
		if step > 20_000 && r.IntN(4) > 0 || r.IntN(3) == 0 {
			k = fmt.Sprintf("k%05d", r.IntN(6000))
			if got, _ := tr.Delete(k); got != want[k] {
				t.Fatalf("delete %s returned %v", k, got)
			}
			delete(want, k)
		} else if e := (&entry{k}); put(&tr, e, r.IntN(2) == 0) != want[k] {
			t.Fatalf("another item was at %s", k)
		} else {
			want[k] = e
		}
		if step%4000 == 0 {
			copies = append(copies, frozen{tr.Freeze(), maps.Clone(want)})
			thawed := copies[len(copies)-1].tree.Thaw()
			for k := range want {
				if r.IntN(2) == 0 {
					thawed.Delete(k)
				}
			}
		}
	}
	check(t, tr, want)
	for _, c := range copies {
		check(t, c.tree, c.want)
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		tr.Delete(k)
	}
	check(t, tr, map[string]*entry{})
}

// put stores an item with Set or Change, and returns the previous one.
func put(t *entries, e *entry, change bool) (old *entry) {
	if change && t.Change(e.key, func(at **entry) { old, *at = *at, e }) {
		return old
	}
	old, _ = t.Set(e.key, e)
	return old
}

func TestReplacedItemsAreNotKeptAlive(t *testing.T) {
	tr := newEntries()
	freed := make(chan struct{}, 1)
	const n = 1000
	for round := range 2 {
		for i := range n {
			k := fmt.Sprintf("k%05d", i*7919%n) // in no order, so that nodes are split in the middle
			e := &entry{k}
			if round == 0 {
				runtime.AddCleanup(e, func(struct{}) { freed <- struct{}{} }, struct{}{})
			}
			tr.Set(k, e)
		}
	}
	runtime.GC()
	for i := range n {
		select {
		case <-freed:
		case <-time.After(time.Minute):
			t.Fatalf("%d of %d replaced items are kept", n-i, n)
		}
	}
	runtime.KeepAlive(&tr)
}
