package watchcache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/server/store"
)

// lender lends values in runs, and overwrites what it has lent once the run has been visited.
type lender struct {
	entries
	fail error
}

func (l lender) Scan(ctx context.Context, prefix string, rev store.Revision, visit func([]store.Entry)) (store.Revision, error) {
	page, _ := l.List(ctx, prefix, store.ListOptions{})
	var visits sync.WaitGroup
	for run := range slices.Chunk(page.Entries, 50) {
		visits.Go(func() {
			var lent [][]byte
			for i := range run {
				run[i].Value = slices.Clone(run[i].Value)
				lent = append(lent, run[i].Value)
			}
			visit(run)
			for _, v := range lent {
				for i := range v {
					v[i] = 'X'
				}
			}
		})
	}
	visits.Wait()
	return 1, l.fail
}

// labelled reads a label and a field out of the value itself.
func labelled(_ string, value []byte) (Attributes, error) {
	s := string(value[:4])
	return Attributes{Labels: MakeLabels([]Label{{Key: "begins", Value: s}}), Fields: []string{s}}, nil
}

func lent(t *testing.T, s store.Store) (*Cache, *Kind) {
	c := New(s, Options{})
	k, err := c.Add(KindOptions{Name: "pods", Prefix: "/registry/pods/", Namespaced: true, Fields: []string{"begins"}, Attributes: labelled})
	if err != nil {
		t.Fatal(err)
	}
	return c, k
}

func TestLentValuesAreKeptAsCopies(t *testing.T) {
	values := mixed(3000)
	c, k := lent(t, lender{entries: entries{values: values}})
	var before []*Object
	for round := range 2 { // the second fill finds what the first has left
		if err := c.fill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, _ := k.packedValues(); n < 1500 {
			t.Errorf("%d of %d values are packed", n, len(values))
		}
		var objects []*Object
		for o := range k.Snapshot().Range("", "") {
			i := len(objects)
			begins := string(values[i][:4])
			if o.Key != fmt.Sprintf("/registry/pods/a/%06d", i) || string(o.Value()) != string(values[i]) || o.Field(0) != begins {
				t.Fatalf("round %d: object %d is %s and has changed", round, i, o.Key)
			}
			if at := o.Labels.Get("begins"); at != begins {
				t.Fatalf("round %d: label %q of object %d", round, at, i)
			}
			objects = append(objects, o)
		}
		if len(objects) != len(values) || round > 0 && !slices.Equal(objects, before) {
			t.Errorf("round %d: %d objects, or others than before", round, len(objects))
		}
		before = objects
	}
}

func TestFillThatFailsHalfwayShowsNothing(t *testing.T) {
	c, k := lent(t, lender{entries: entries{values: mixed(200)}, fail: store.ErrCompacted})
	if err := c.fill(t.Context()); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("fill: %v", err)
	}
	if c.Ready() || k.Ready() || k.Snapshot().Len() != 0 {
		t.Error("a part of the state is shown")
	}
}

// refuser refuses the values of some keys.
type refuser struct{}

func (refuser) To(_ string, value []byte) ([]byte, error) { return value, nil }

func (refuser) From(key string, value []byte) ([]byte, bool, error) {
	if strings.HasSuffix(key, "7") {
		return nil, false, errors.New("no key fits")
	}
	return value, false, nil
}

func TestLentValuesThatCannotBeReadAreOmitted(t *testing.T) {
	c, k := lent(t, store.Transform(lender{entries: entries{values: mixed(200)}}, refuser{}))
	if err := c.fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := k.Snapshot().Len(); n != 180 {
		t.Errorf("%d objects", n)
	}
	if err := k.Unreadable("/registry/pods/a/000107"); !errors.Is(err, store.ErrUnreadable) {
		t.Errorf("value that cannot be read: %v", err)
	}
}
