package ownership

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/millrace/millrace/internal/randomly"

	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/resource/core"
)

// TestNewObjectsHaveWhatAComparisonWithNothingFinds fills objects of all kinds at random.
func TestNewObjectsHaveWhatAComparisonWithNothingFinds(t *testing.T) {
	f := &filler{Rand: rand.New(rand.NewPCG(randomly.Seed(t), 1))}
	fresh, all := 0, 0
	for _, k := range builtin.Kinds() {
		for _, face := range k.Faces {
			for round := range 40 {
				f.strange = round%4 == 3
				o := face.New()
				f.fill(reflect.ValueOf(o).Elem(), 0)
				q := newQuick(face, "", ignored(k, ""))
				if q == nil {
					continue
				}
				all++
				var a, b comparison
				set, ok := a.fresh(q.shape, reflect.ValueOf(o).Elem())
				if !ok {
					continue
				}
				fresh++
				b.find(q.shape, q.zero, reflect.ValueOf(o).Elem())
				want := string(b.write(nil, b.changed))
				if b.empty(b.changed) {
					want = ""
				}
				if b.odd || string(set) != want {
					t.Errorf("%s:\n got %s\nwant %s (odd: %v)", face.Kind, set, want, b.odd)
				}
			}
		}
	}
	t.Logf("%d of %d", fresh, all)
	if fresh < all/2 {
		t.Errorf("%d of %d objects were left to the comparison", all-fresh, all)
	}
}

func BenchmarkNewPod(b *testing.B) {
	kind := core.Kinds()[0]
	for _, k := range core.Kinds() {
		if k.Kind == "Pod" {
			kind = k
		}
	}
	p := pod(kind)
	q := newQuick(kind.Faces[0], "", ignored(kind, ""))
	b.Run("written", func(b *testing.B) {
		b.ReportAllocs()
		var c comparison
		for b.Loop() {
			if _, ok := c.fresh(q.shape, reflect.ValueOf(p).Elem()); !ok {
				b.Fatal("odd")
			}
		}
	})
	b.Run("compared", func(b *testing.B) {
		b.ReportAllocs()
		var c comparison
		for b.Loop() {
			c.find(q.shape, q.zero, reflect.ValueOf(p).Elem())
			c.text = c.write(c.text[:0], c.changed)
		}
	})
}
