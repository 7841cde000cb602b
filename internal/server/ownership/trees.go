package ownership

import (
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

// Objects of custom kinds are trees. How their parts are owned stands in the schema that the library has compiled, so
// there is one schema for both ways. Nulls, values of other types than the schema says, and elements that are there
// twice are left to the library.

// trees are the objects of one version of a custom kind, seen through one view.
type trees struct {
	schema *schema.Schema
	root   schema.TypeRef
	aside  *aside
}

// aside is what has no owner, by the names that lead there.
type aside struct {
	whole bool // all that is here
	named bool // what is here has none, but its parts may
	parts map[string]*aside
}

// newTrees is nil if the library has no schema of the face's objects.
func newTrees(face *resource.Face, ignored [][]string) *trees {
	u := tree.Of(face.New())
	topology, err := face.Of.Topology()
	if u == nil || err != nil {
		return nil
	}
	u.SetGroupVersionKind(face.GroupVersionKind)
	typed, err := topology.ObjectToTyped(u)
	if err != nil {
		return nil
	}
	t := &trees{schema: typed.Schema(), root: typed.TypeRef(), aside: &aside{}}
	for _, path := range append(slices.Clone(bookkeeping), ignored...) {
		t.aside.add(path)
	}
	t.aside.part("metadata").named = true
	return t
}

func (a *aside) add(path []string) {
	if len(path) == 0 {
		a.whole = true
		return
	}
	if a.parts == nil {
		a.parts = map[string]*aside{}
	}
	inner := a.parts[path[0]]
	if inner == nil {
		inner = &aside{}
		a.parts[path[0]] = inner
	}
	inner.add(path[1:])
}

func (a *aside) part(name string) *aside {
	if a == nil {
		return nil
	}
	return a.parts[name]
}

// member is the type of a value by its name. declared says that the schema names it.
func member(m *schema.Map, name string) (t schema.TypeRef, declared, ok bool) {
	if f, found := m.FindField(name); found {
		return f.Type, true, true
	}
	return m.ElementType, false, m.ElementType != schema.TypeRef{}
}

func atomicMap(m *schema.Map) bool { return m.ElementRelationship == schema.Atomic }

func atomicList(l *schema.List) bool { return l.ElementRelationship == schema.Atomic }

// Whether a list may have elements that are told apart by names twice. What is applied may not; then lists that would
// have to be searched are left to the library.
const (
	once       = false
	repeatable = true
)

// valid tells that a value is what the schema says. The library refuses others.
func (t *trees) valid(of schema.TypeRef, value any, repeats bool) bool {
	atom, ok := t.schema.Resolve(of)
	if !ok {
		return false
	}
	switch v := value.(type) {
	case map[string]any:
		if atom.Map == nil {
			return false
		}
		for name, inner := range v {
			if of, _, ok := member(atom.Map, name); !ok || !t.valid(of, inner, repeats) {
				return false
			}
		}
		return true
	case []any:
		return atom.List != nil && t.validList(atom.List, v, repeats)
	}
	return atom.Scalar != nil && validScalar(*atom.Scalar, value)
}

func (t *trees) validList(l *schema.List, list []any, repeats bool) bool {
	told := l.ElementRelationship == schema.Associative
	if told && !repeats && len(list) > 1 {
		return false
	}
	for _, inner := range list {
		if told && !identified(l, inner) || !t.valid(l.ElementType, inner, repeats) {
			return false
		}
	}
	return true
}

// identified tells that an element of a list has what it is told apart by.
func identified(l *schema.List, element any) bool {
	m, isMap := element.(map[string]any)
	if len(l.Keys) == 0 {
		_, isList := element.([]any)
		return !isMap && !isList
	}
	for _, key := range l.Keys {
		if m[key] == nil {
			return false
		}
	}
	return isMap
}

func validScalar(s schema.Scalar, value any) bool {
	switch value.(type) {
	case string:
		return s == schema.String || s == schema.Untyped
	case int64, float64:
		return s == schema.Numeric || s == schema.Untyped
	case bool:
		return s == schema.Boolean || s == schema.Untyped
	}
	return false
}

// sameTree tells whether the library finds two values equal.
func sameTree(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for name, value := range x {
			if other, has := y[name]; !has || !sameTree(value, other) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, sameTree)
	case float64:
		if n, ok := b.(int64); ok {
			return x == float64(n)
		}
	case int64:
		if f, ok := b.(float64); ok {
			return float64(x) == f
		}
	}
	return !nested(b) && a == b
}

// fits tells whether a set could have been made from values of this type, as it does for shapes.
func (t *trees) fits(of schema.TypeRef, p *paths, set ref) bool {
	if p.nodes[set].child == 0 {
		return true
	}
	atom, ok := t.schema.Resolve(of)
	if !ok {
		return false
	}
	for child := p.nodes[set].child; child != 0; child = p.nodes[child].next {
		n := &p.nodes[child]
		var inner schema.TypeRef
		switch {
		case n.kind == fieldStep && atom.Map != nil && !atomicMap(atom.Map):
			if inner, _, ok = member(atom.Map, n.name); !ok {
				continue // the library takes no notice of what it does not know
			}
		case n.kind != fieldStep && atom.Map == nil && atom.List != nil && !atomicList(atom.List):
			inner = atom.List.ElementType
		default:
			return false
		}
		if n.child != 0 && !t.fits(inner, p, child) {
			return false
		}
	}
	return true
}
