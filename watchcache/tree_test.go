package watchcache

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// check fails if the tree is not the map, or is not a sound tree.
func (t tree) check(tb testing.TB, want map[string]*Object) {
	tb.Helper()
	var got []string
	t.ascend("", func(o *Object) bool {
		got = append(got, o.Key)
		if want[o.Key] != o {
			tb.Fatalf("key %s has another object", o.Key)
		}
		return true
	})
	keys := slices.Sorted(maps.Keys(want))
	if !slices.Equal(got, keys) || t.len() != len(want) {
		tb.Fatalf("tree has %d of %d keys: %q, want %q", len(got), t.len(), got, keys)
	}
	for i, k := range keys {
		if t.get(k) != want[k] || t.rank(k) != i || t.rank(k+"!") != i+1 {
			tb.Fatalf("key %s is at rank %d, want %d", k, t.rank(k), i)
		}
	}
	if t.root != nil {
		t.root.check(tb, true)
	}
}

func (n *node) check(tb testing.TB, root bool) (depth int) {
	tb.Helper()
	if len(n.items) > mostItems || root && len(n.items) == 0 {
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
		d := c.check(tb, false)
		if i > 0 && d != depth {
			tb.Fatal("leaves are at different depths")
		}
		depth = d
	}
	return depth + 1
}

func TestTreeIsASortedMapWhoseCopiesNeverChange(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	type frozen struct {
		tree tree
		want map[string]*Object
	}
	var copies []frozen
	var tr tree
	want := map[string]*Object{}
	for i := range 3000 { // ascending first, as a fill comes
		k := fmt.Sprintf("k%05d", i)
		want[k] = &Object{Key: k}
		tr.set(k, want[k])
	}
	for step := range 40_000 {
		n := 6000
		if step > 20_000 {
			n = 20000 // mostly deletions of what is there: see below
		}
		k := fmt.Sprintf("k%05d", r.IntN(n))
		if step > 20_000 && r.IntN(4) > 0 || r.IntN(3) == 0 {
			k = fmt.Sprintf("k%05d", r.IntN(6000))
			if got := tr.delete(k); got != want[k] {
				t.Fatalf("delete %s returned %v", k, got)
			}
			delete(want, k)
		} else {
			o := &Object{Key: k}
			if got := tr.set(k, o); got != want[k] {
				t.Fatalf("set %s returned %v", k, got)
			}
			want[k] = o
		}
		if step%4000 == 0 {
			copies = append(copies, frozen{tr.freeze(), maps.Clone(want)})
			thawed := copies[len(copies)-1].tree.thaw()
			for k := range want {
				if r.IntN(2) == 0 {
					thawed.delete(k)
				}
			}
		}
	}
	tr.check(t, want)
	for _, c := range copies {
		c.tree.check(t, c.want)
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		tr.delete(k)
	}
	tr.check(t, map[string]*Object{})
}

func BenchmarkTreeSetAfterSnapshot(b *testing.B) {
	for _, every := range []int{0, 1, 16} {
		b.Run(fmt.Sprintf("freeze every %d", every), func(b *testing.B) {
			var tr tree
			objects := make([]*Object, 100_000)
			for i := range objects {
				objects[i] = &Object{Key: fmt.Sprintf("/registry/pods/default/pod-%06d", i)}
				tr.set(objects[i].Key, objects[i])
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				if every > 0 && n%every == 0 {
					tr.freeze()
				}
				o := objects[n*7919%len(objects)]
				tr.set(o.Key, o)
			}
		})
	}
}
