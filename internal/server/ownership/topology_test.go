package ownership

import (
	"reflect"
	"slices"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/millrace/millrace/internal/server/resource/builtin"
)

// TestShapesAgreeWithTheLibrarysSchema fails when the table is older than the library: then go generate must be run.
func TestShapesAgreeWithTheLibrarysSchema(t *testing.T) {
	known, err := types()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, k := range builtin.Kinds() {
		for _, face := range k.Faces {
			o, err := faces{k}.New(face.GroupVersionKind)
			if err != nil {
				t.Fatal(err)
			}
			typed, err := known.ObjectToTyped(o)
			if err != nil {
				continue // reviews and bindings
			}
			c := &checker{T: t, schema: typed.Schema(), seen: map[*shape]bool{}}
			c.check(face.Kind, shapeOf(reflect.TypeOf(o).Elem()), typed.TypeRef())
			checked += len(c.seen)
		}
	}
	if checked < 1000 {
		t.Errorf("only %d shapes were checked", checked)
	}
}

type checker struct {
	*testing.T
	schema *schema.Schema
	seen   map[*shape]bool
}

func (c *checker) check(path string, s *shape, r schema.TypeRef) {
	if s.form == opaque || c.seen[s] {
		return
	}
	c.seen[s] = true
	a, ok := c.schema.Resolve(r)
	if !ok {
		c.Errorf("%s: the library has no such type", path)
		return
	}
	switch {
	case s.form == structure && a.Map != nil:
		c.whole(path, s, a.Map.ElementRelationship == schema.Atomic)
		for _, f := range s.fields {
			field, known := a.Map.FindField(f.name)
			if !known {
				c.Errorf("%s: the library has no field %s", path, f.name)
				continue
			}
			c.check(path+"."+f.name, f.shape, field.Type)
		}
	case s.form == mapping && a.Map != nil:
		c.whole(path, s, a.Map.ElementRelationship == schema.Atomic)
		c.check(path+"[]", s.elem, a.Map.ElementType)
	case s.form == list && a.List != nil:
		c.whole(path, s, a.List.ElementRelationship == schema.Atomic)
		if s.leaf {
			return
		}
		var keys []string
		for _, i := range s.keys {
			keys = append(keys, s.elem.fields[i].name)
		}
		if want := slices.Sorted(slices.Values(a.List.Keys)); !slices.Equal(keys, want) || s.set != (len(want) == 0) {
			c.Errorf("%s: keys %v, set %v; the library has %v", path, keys, s.set, want)
		}
		c.check(path+"[]", s.elem, a.List.ElementType)
	case a.Scalar == nil:
		c.Errorf("%s: form %d is not what the library has", path, s.form)
	}
}

func (c *checker) whole(path string, s *shape, atomic bool) {
	if s.leaf != atomic {
		c.Errorf("%s: owned as a whole: %v; by the library: %v", path, s.leaf, atomic)
	}
}
