package watchcache

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/internal/server/store"
)

// mixed returns values of several templates, values that resemble no other, and tiny values.
func mixed(n int) [][]byte {
	r := rand.New(rand.NewPCG(1, 1))
	noise := func(size int) []byte {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	templates := [][]byte{noise(6000), noise(900), noise(40_000)}
	var out [][]byte
	for i := range n {
		switch r.IntN(8) {
		case 0:
			out = append(out, noise(2000))
		case 1:
			out = append(out, []byte("tiny"))
		default:
			v := append([]byte(nil), templates[r.IntN(len(templates))]...)
			copy(v[r.IntN(len(v)):], fmt.Sprintf("number %d", i))
			out = append(out, v)
		}
	}
	return out
}

// entries is a store with values and without a log.
type entries struct {
	store.Store
	values [][]byte
}

func (s entries) Revision(context.Context) (store.Revision, error) { return 1, nil }

func (s entries) List(_ context.Context, prefix string, _ store.ListOptions) (store.Page, error) {
	p := store.Page{Revision: 1}
	for i, v := range s.values {
		p.Entries = append(p.Entries, store.Entry{Key: fmt.Sprintf("%sa/%06d", prefix, i), Value: v, Revision: 1})
	}
	return p, nil
}

func (k *Kind) packedValues() (n, bytes int) {
	for o := range k.Snapshot().Range("", "") {
		b := o.body.Load()
		if b.model != nil {
			n++
		}
		bytes += len(b.bytes)
	}
	return n, bytes
}

func filled(t testing.TB, values [][]byte) (*Cache, *Kind) {
	c := New(entries{values: values}, Options{})
	k, err := c.Add(KindOptions{Name: "pods", Prefix: "/registry/pods/", Namespaced: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c, k
}

// written returns a kind whose values have arrived through the log.
func written(t testing.TB, values [][]byte) (*Cache, *Kind) {
	c, k := filled(t, nil)
	b := store.Batch{Revision: 2}
	for i, v := range values {
		b.Events = append(b.Events, store.Event{Type: store.Put, Key: fmt.Sprintf("/registry/pods/a/%06d", i), Value: v, Revision: 2})
	}
	if err := c.apply(b); err != nil {
		t.Fatal(err)
	}
	return c, k
}

// TestFilledValuesArePackedAtOnce fills a cache whose unpacked values would take several times the memory.
func TestFilledValuesArePackedAtOnce(t *testing.T) {
	values := mixed(3000)
	before := 0
	for _, v := range values {
		before += len(v)
	}
	_, k := filled(t, values)
	if n, bytes := k.packedValues(); n < 2000 || bytes > before/2 {
		t.Errorf("%d of %d values are packed, %d of %d bytes are left", n, len(values), bytes, before)
	}
	i := 0
	for o := range k.Snapshot().Range("", "") {
		if string(o.Value()) != string(values[i]) {
			t.Fatalf("value %d has changed", i)
		}
		i++
	}
}

// TestFillSpendsLittleOnValuesThatAreLikeNoOther counts the values for which packing was tried.
func TestFillSpendsLittleOnValuesThatAreLikeNoOther(t *testing.T) {
	var values [][]byte
	for _, v := range mixed(10_000) {
		if len(v) == 2000 {
			values = append(values, v)
		}
	}
	_, k := filled(t, values)
	tried := 0
	for o := range k.Snapshot().Range("", "") {
		if o.incompressible {
			tried++
		}
	}
	if most := missesInARow + len(values)/triedAfterMisses + 1; tried == 0 || tried > most {
		t.Errorf("%d of %d were tried", tried, len(values))
	}
}

func TestPackedValuesAreUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		values := mixed(3000)
		_, k := written(t, values)
		k.pack(t.Context())
		if n, _ := k.packedValues(); n != 0 {
			t.Errorf("%d new values are packed", n)
		}
		before := 0
		for _, v := range values {
			before += len(v)
		}
		for round := range 3 {
			k.pack(t.Context())
			n, bytes := k.packedValues()
			if round == 0 && (n < 2000 || bytes > before/2) {
				t.Errorf("%d of %d values are packed, %d of %d bytes are left", n, len(values), bytes, before)
			}
			i := 0
			for o := range k.Snapshot().Range("", "") {
				if string(o.Value()) != string(values[i]) {
					t.Fatalf("round %d: value %d has changed", round, i)
				}
				i++
			}
		}
	})
}

func TestValuesThatAreReadAreNotPacked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, k := written(t, mixed(100))
		for range 3 {
			for o := range k.Snapshot().Range("", "") {
				o.Value()
			}
			k.pack(t.Context())
		}
		if n, _ := k.packedValues(); n != 0 {
			t.Errorf("%d values are packed", n)
		}
	})
}

// TestLargeOutdatedValuesArePacked changes objects that resemble no other a little.
func TestLargeOutdatedValuesArePacked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(2, 2))
		c, k := filled(t, nil)
		const objects, versions, size = 20, 4, 40_000
		values := make([][]byte, objects)
		for i := range values {
			values[i] = make([]byte, size)
			for j := range values[i] {
				values[i][j] = byte(r.Uint32())
			}
		}
		rev, written := store.Revision(1), map[store.Revision][]byte{}
		for v := range versions {
			rev++
			b := store.Batch{Revision: rev}
			for i := range values {
				values[i] = append([]byte(nil), values[i]...)
				copy(values[i][r.IntN(size-20):], fmt.Sprint("version ", v))
				b.Events = append(b.Events, store.Event{Type: store.Put, Key: fmt.Sprintf("/registry/pods/a/%06d", i), Value: values[i], Revision: rev})
				written[rev<<8|store.Revision(i)] = values[i]
			}
			if err := c.apply(b); err != nil {
				t.Fatal(err)
			}
		}
		for range 4 { // unread, the newest found to resemble no other, the outdated packed, nothing to do
			k.pack(t.Context())
		}
		kept, texts := 0, map[*model]bool{}
		for l := k.history.list.base.next.Load(); l != nil; l = l.next.Load() {
			e := l.event.Load()
			if e.Previous == nil {
				continue
			}
			b := e.Previous.body.Load()
			kept += len(b.bytes)
			texts[b.model] = true
			var i int
			fmt.Sscanf(e.Previous.Name(), "%d", &i)
			if string(e.Previous.Value()) != string(written[e.Previous.Revision<<8|store.Revision(i)]) {
				t.Errorf("%s at %d has changed", e.Previous.Name(), e.Previous.Revision)
			}
		}
		for o := range k.Snapshot().Range("", "") {
			if v := o.Value(); cap(v) != len(v) {
				t.Errorf("who appends to the value of %s writes into the model's slack", o.Name())
			}
		}
		if kept > objects*versions*200 || len(texts) != objects {
			t.Errorf("%d bytes and %d models are kept of %d outdated values", kept, len(texts), objects*(versions-1))
		}
	})
}

func TestWindowCountsPackedValuesAtTheirFullSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, k := filled(t, mixed(200))
		for range 2 {
			k.pack(t.Context())
		}
		rev, fresh := store.Revision(1), mixed(200)
		for round := range 3 {
			b := store.Batch{}
			for i, v := range fresh {
				rev++
				b.Events = append(b.Events, store.Event{Key: fmt.Sprintf("/registry/pods/a/%06d", i), Value: v, Revision: rev})
			}
			b.Revision = rev
			if err := c.apply(b); err != nil {
				t.Fatal(err)
			}
			k.pack(t.Context())
			k.pack(t.Context())
			want := 0
			for l := k.history.list.base.next.Load(); l != nil; l = l.next.Load() {
				want += l.event.Load().cost()
			}
			if got := k.Stats().WindowBytes; got != want || got < 0 {
				t.Errorf("round %d: the window has %d bytes, its events %d", round, got, want)
			}
		}
	})
}

func BenchmarkPack(b *testing.B) {
	values := make([][]byte, 2000)
	for i := range values {
		values[i] = benchValue(i, 0)
	}
	_, k := written(b, values)
	var objects []*Object
	for o := range k.Snapshot().Range("", "") {
		objects = append(objects, o)
	}
	b.Run("press", func(b *testing.B) {
		var p packer
		for i := 0; b.Loop(); i++ {
			o := objects[i%len(objects)]
			best, fits := p.bestModel(o.body.Load().value())
			if !fits {
				p.addModel(newModel(o.Value()))
			}
			_ = best
		}
	})
	b.Run("read", func(b *testing.B) {
		for range 2 {
			k.pack(b.Context())
		}
		n, bytes := k.packedValues()
		b.ReportMetric(float64(bytes)/float64(len(objects)), "B/value")
		if n == 0 {
			b.Fatal("no value is packed")
		}
		for i := 0; b.Loop(); i++ {
			objects[i%len(objects)].Value()
		}
	})
}
