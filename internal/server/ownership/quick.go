package ownership

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/resource"
)

// quick computes managed fields of ordinary changes without the library: one walk over two Go structs, and sets as flat
// trees. Whatever is not ordinary it leaves to the library: the two must never differ.
type quick struct {
	trees   *trees // of objects that are trees; others have shapes
	shape   *shape // less what is ignored
	full    *shape
	version string
	view    string
	zero    reflect.Value
	parsed  parsed
}

// workspaces keep the memory of comparisons.
var workspaces = sync.Pool{New: func() any { return &comparison{} }}

// mostUpdaters is how many entries of updates there may be before the library merges the oldest.
const mostUpdaters = 10

// release gives the memory back, without holding on to the objects.
func (c *comparison) release() {
	clear(c.nodes[:cap(c.nodes)])
	clear(c.scratch[:cap(c.scratch)])
	clear(c.keys[:cap(c.keys)])
	clear(c.items[:cap(c.items)])
	workspaces.Put(c)
}

// newQuick is nil if objects of this face can't be compared here.
func newQuick(face *resource.Face, view string, ignored [][]string) *quick {
	t := reflect.TypeOf(face.New()).Elem()
	s := shapeOf(t)
	if s.form != structure || s.leaf {
		return nil
	}
	full := s
	for _, path := range append(slices.Clone(ignored), bookkeeping...) {
		s = s.without(path...)
	}
	return &quick{shape: s, full: full, version: face.GroupVersion().String(), view: view, zero: reflect.Zero(t)}
}

// bookkeeping is what nobody owns.
var bookkeeping = [][]string{
	{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "creationTimestamp"}, {"metadata", "selfLink"},
	{"metadata", "uid"}, {"metadata", "generation"}, {"metadata", "managedFields"}, {"metadata", "resourceVersion"},
}

// track computes the managed fields of now, which is a pointer to a struct, or a tree. ok is false if the library has
// to do it.
func (q *quick) track(old, now any, before, given []metav1.ManagedFieldsEntry, manager string) (after []metav1.ManagedFieldsEntry, ok bool) {
	switch {
	case old == nil && isReset(given) || old == nil && given == nil:
		before = nil
	case old == nil:
		return nil, false
	case q.view == "" && isReset(given):
		return nil, true // an object whose owners are not known stays so
	case q.view == "" && len(given) > 0 && !sameEntries(given, before):
		return nil, false
	case len(before) == 0:
		return nil, true
	}
	c := workspaces.Get().(*comparison)
	defer c.release()
	if old == nil && q.trees == nil {
		if set, ok := c.fresh(q.shape, reflect.ValueOf(now).Elem()); ok {
			return q.first(set, manager), true
		}
	}
	q.find(c, old, now)
	if c.odd {
		return nil, false
	}
	after, ok = q.entries(c, before, manager)
	return after, ok && !c.odd
}

// find compares two objects; without an old one all is new.
func (q *quick) find(c *comparison, old, now any) {
	if q.trees != nil {
		left, _ := old.(map[string]any)
		c.findTrees(q.trees, left, now.(map[string]any))
		return
	}
	left := q.zero
	if old != nil {
		left = reflect.ValueOf(old).Elem()
	}
	c.find(q.shape, left, reflect.ValueOf(now).Elem())
}

// fits tells whether a set could have been made from objects of today's types.
func (q *quick) fits(p *paths, set ref) bool {
	if q.trees != nil {
		return q.trees.fits(q.trees.root, p, set)
	}
	return q.full.fits(p, set)
}

// isReset tells whether a client wants that nobody owns anything.
func isReset(e []metav1.ManagedFieldsEntry) bool {
	return e != nil && len(e) == 0 || len(e) == 1 && e[0] == metav1.ManagedFieldsEntry{}
}

// sameEntries tells whether a client has sent back what it was given.
func sameEntries(a, b []metav1.ManagedFieldsEntry) bool {
	return slices.EqualFunc(a, b, func(x, y metav1.ManagedFieldsEntry) bool {
		return x.Manager == y.Manager && x.Operation == y.Operation && x.APIVersion == y.APIVersion && x.FieldsType == y.FieldsType &&
			x.Subresource == y.Subresource && x.Time.Equal(y.Time) && (x.FieldsV1 == y.FieldsV1 || x.FieldsV1 != nil && y.FieldsV1 != nil && x.FieldsV1.Equal(*y.FieldsV1))
	})
}

// first are the managed fields of a new object, of which all that is in it is the manager's.
func (q *quick) first(set []byte, manager string) []metav1.ManagedFieldsEntry {
	if len(set) == 0 {
		return nil
	}
	own := q.own(manager)
	own.Time, own.FieldsV1 = now(), &metav1.FieldsV1{}
	own.FieldsV1.SetRawBytes(bytes.Clone(set))
	return []metav1.ManagedFieldsEntry{own}
}

// own is the entry of a manager who updates.
func (q *quick) own(manager string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: cmp.Or(manager, "unknown"), Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: q.version,
		Subresource: q.view, FieldsType: "FieldsV1"}
}

// entries takes what has changed from who owned it, and gives it to the manager.
func (q *quick) entries(c *comparison, before []metav1.ManagedFieldsEntry, manager string) (after []metav1.ManagedFieldsEntry, ok bool) {
	own := q.own(manager)
	changed, found := !c.empty(c.changed), false
	after = make([]metav1.ManagedFieldsEntry, 0, len(before)+1)
	updaters := 0
	for i := range before {
		e := before[i]
		if !q.readable(&e) || slices.ContainsFunc(before[:i], func(o metav1.ManagedFieldsEntry) bool { return identical(&o, &e) }) {
			return nil, false
		}
		mine := identical(&e, &own)
		found = found || mine
		if q.update(c, &e, mine && changed) {
			after = append(after, e)
			if e.Operation == metav1.ManagedFieldsOperationUpdate {
				updaters++
			}
		}
		if c.odd {
			return nil, false
		}
	}
	if changed && !found {
		own.Time = now()
		own.FieldsV1 = c.encoded(c.changed)
		after = append(after, own)
		updaters++
	}
	if len(after) == 0 {
		after = nil
	}
	slices.SortFunc(after, order)
	return after, updaters <= mostUpdaters
}

func (c *comparison) encoded(set ref) *metav1.FieldsV1 {
	c.text = c.write(c.text[:0], set)
	f := &metav1.FieldsV1{}
	f.SetRawBytes(bytes.Clone(c.text))
	return f
}

func now() *metav1.Time { return &metav1.Time{Time: time.Now().UTC()} }

// readable tells whether an entry is one that was made here, or by the library in the same version.
func (q *quick) readable(e *metav1.ManagedFieldsEntry) bool {
	return e.FieldsType == "FieldsV1" && e.FieldsV1 != nil && e.APIVersion == q.version &&
		(e.Operation == metav1.ManagedFieldsOperationApply || e.Operation == metav1.ManagedFieldsOperationUpdate)
}

// identical tells entries of the same owner.
func identical(a, b *metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.APIVersion == b.APIVersion && a.Subresource == b.Subresource
}

// update changes one entry: the manager's own gains what has changed, others lose it; all lose what is gone. It tells
// whether anything is left.
func (q *quick) update(c *comparison, e *metav1.ManagedFieldsEntry, mine bool) (left bool) {
	mark := len(c.nodes)
	set := q.read(c, e.FieldsV1.GetRawString())
	if c.odd {
		return false
	}
	keeps := !c.touches(set, c.gone)
	switch {
	case mine:
		e.Time = now()
		if keeps && c.holds(set, c.changed) {
			c.nodes = c.nodes[:mark]
			return true
		}
		set = c.union(c.less(set, c.gone), c.changed)
	case keeps && !c.touches(set, c.changed):
		left = !c.empty(set)
		c.nodes = c.nodes[:mark]
		return left
	default:
		set = c.less(c.less(set, c.changed), c.gone)
	}
	if c.empty(set) {
		return false
	}
	e.FieldsV1 = c.encoded(set)
	return true
}

// order is the order of entries that the library keeps.
func order(a, b metav1.ManagedFieldsEntry) int {
	return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(unix(a.Time), unix(b.Time)), cmp.Compare(a.Manager, b.Manager),
		cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Subresource, b.Subresource))
}

func unix(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}

// fits tells whether a set could have been made from values of this shape: none of its paths leads into what is owned
// as a whole. The library would mend a set that does, after a change of the types.
func (s *shape) fits(p *paths, set ref) bool {
	child := p.nodes[set].child
	if child == 0 {
		return true
	}
	if s.leaf {
		return false
	}
	i := 0
	for ; child != 0; child = p.nodes[child].next {
		n := &p.nodes[child]
		inner := s.elem
		if s.form == structure {
			for i < len(s.fields) && s.fields[i].name < n.name {
				i++
			}
			if i == len(s.fields) || s.fields[i].name != n.name {
				continue
			}
			inner = s.fields[i].shape
		}
		if n.child != 0 && !inner.fits(p, child) {
			return false
		}
	}
	return true
}
