package gotypes_test

import (
	"reflect"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/gotypes"
)

type node struct {
	Value int
	Left  *node
	Right *node
	Leaf  *leaf
}

type leaf struct{ Up *node }

// fields counts a type's fields, and has the plans of the types to which its pointers point.
type fields struct {
	count int
	to    []*fields
}

func TestRecursiveTypesAreComputedOnce(t *testing.T) {
	var mu sync.Mutex
	times := map[reflect.Type]int{}
	set := gotypes.New(func(p *fields, t reflect.Type, of func(reflect.Type) *fields) {
		mu.Lock()
		times[t]++
		mu.Unlock()
		for i := range t.NumField() {
			p.count++
			if f := t.Field(i).Type; f.Kind() == reflect.Pointer {
				p.to = append(p.to, of(f.Elem()))
			}
		}
	})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			p := set.Of(reflect.TypeFor[node]())
			if p.count != 4 || p.to[0] != p || p.to[1] != p || p.to[2].count != 1 || p.to[2].to[0] != p {
				t.Errorf("%+v", p)
			}
		})
	}
	all.Wait()
	if set.Of(reflect.TypeFor[leaf]()).to[0] != set.Of(reflect.TypeFor[node]()) || len(times) != 2 || times[reflect.TypeFor[node]()] != 1 {
		t.Errorf("worked out %v", times)
	}
}
