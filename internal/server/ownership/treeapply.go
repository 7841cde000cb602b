package ownership

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

// applyTree applies a configuration of a tree where that makes a new object, or only copies values to where they are
// already.
func (q *quick) applyTree(face *resource.Face, live resource.Object, configuration runtime.Object, manager string) (merged resource.Object, ok bool) {
	u, isTree := configuration.(*unstructured.Unstructured)
	if !isTree || manager == "" || hasLastApplied(u) {
		return nil, false
	}
	c := workspaces.Get().(*comparison)
	defer c.release()
	if live == nil {
		merged, ok = q.applyNewTree(c, u, manager)
	} else {
		merged, ok = q.applyTreeAgain(c, live.(*unstructured.Unstructured), u, manager, face.Of.Default)
	}
	if ok {
		merged.GetObjectKind().SetGroupVersionKind(face.GroupVersionKind)
		face.Of.Default(merged)
	}
	return merged, ok
}

func hasLastApplied(u *unstructured.Unstructured) bool {
	_, has, _ := unstructured.NestedFieldNoCopy(u.Object, "metadata", "annotations", corev1.LastAppliedConfigAnnotation)
	return has
}

// appliedSet is the set of what a configuration says.
func (q *quick) appliedSet(c *comparison, configuration map[string]any) (set ref, ok bool) {
	c.reset()
	c.keys, c.items = c.keys[:0], c.items[:0]
	set = c.root()
	atom, ok := q.trees.schema.Resolve(q.trees.root)
	if !ok || atom.Map == nil || atomicMap(atom.Map) {
		return 0, false
	}
	treeWalk{c, q.trees}.appliedMap(atom.Map, configuration, q.trees.aside, set)
	return set, !c.odd && !c.empty(set)
}

// applyNewTree makes an object of a configuration.
func (q *quick) applyNewTree(c *comparison, u *unstructured.Unstructured, manager string) (merged resource.Object, ok bool) {
	set, ok := q.appliedSet(c, u.Object)
	if !ok || tree.ManagedFields(u) != nil {
		return nil, false
	}
	own := q.own(manager)
	own.Operation, own.Time, own.FieldsV1 = metav1.ManagedFieldsOperationApply, now(), c.encoded(set)
	return u, setOwners(u, nil, nil, []metav1.ManagedFieldsEntry{own})
}

// applyTreeAgain applies the fields that a manager has applied before, with other values or with the same.
func (q *quick) applyTreeAgain(c *comparison, live, u *unstructured.Unstructured, manager string, fill func(resource.Object)) (merged resource.Object, ok bool) {
	stored := tree.ManagedFields(live)
	before, ok := readOwners(stored)
	mine := slices.IndexFunc(before, func(e metav1.ManagedFieldsEntry) bool { return q.applies(&e, manager) })
	if !ok || mine < 0 || !q.readable(&before[mine]) || hasLastApplied(live) || !q.sameObject(live, u) {
		return nil, false
	}
	set, ok := q.appliedSet(c, u.Object)
	if !ok {
		return nil, false
	}
	last := q.read(c, before[mine].FieldsV1.GetRawString())
	if c.odd || !c.holds(last, set) || !c.holds(set, last) {
		return nil, false
	}
	out := tree.Copy(live)
	atom, _ := q.trees.schema.Resolve(q.trees.root)
	treeWalk{c, q.trees}.putMap(atom.Map, u.Object, out.Object)
	if c.odd {
		return nil, false
	}
	c.findTrees(q.trees, live.Object, out.Object)
	after, ok := q.undisturbed(c, before, mine)
	if !ok || c.odd || c.lost {
		return nil, false
	}
	if c.empty(c.changed) {
		return out, true
	}
	// What is filled in may make of a list what it was.
	fill(out)
	if tree.Equal(out.Object, live.Object) {
		return out, true
	}
	return out, setOwners(out, before, stored, after)
}

// sameObject tells that a configuration is about an object, and says nothing that has no owner.
func (q *quick) sameObject(live metav1.Object, u *unstructured.Unstructured) bool {
	if name := u.GetName(); name != "" && name != live.GetName() || u.GetNamespace() != "" && u.GetNamespace() != live.GetNamespace() {
		return false
	}
	for name, part := range q.trees.aside.parts {
		if _, given := u.Object[name]; given && part.whole && name != "apiVersion" && name != "kind" {
			return false
		}
	}
	meta, _ := u.Object["metadata"].(map[string]any)
	for name := range meta {
		if q.trees.aside.part("metadata").part(name) != nil && name != "name" && name != "namespace" {
			return false
		}
	}
	return true
}

// put is a value where a configuration says another: of maps and lists that belong to many, only the parts that it
// says.
func (w treeWalk) put(of schema.TypeRef, value, into any) any {
	atom, ok := w.schema.Resolve(of)
	w.odd = w.odd || !ok || into == nil
	switch v := value.(type) {
	case map[string]any:
		there, isMap := into.(map[string]any)
		if w.odd = w.odd || atom.Map == nil || !isMap; w.odd {
			return nil
		}
		if !atomicMap(atom.Map) {
			w.odd = len(v) == 0
			w.putMap(atom.Map, v, there)
			return there
		}
	case []any:
		there, isList := into.([]any)
		if w.odd = w.odd || atom.List == nil || !isList; w.odd {
			return nil
		}
		if !atomicList(atom.List) {
			w.putList(atom.List, v, there)
			return there
		}
	}
	return value
}

func (w treeWalk) putMap(m *schema.Map, values, into map[string]any) {
	for name, value := range values {
		if w.odd {
			return
		}
		of, _, _ := member(m, name)
		into[name] = w.put(of, value, into[name])
	}
}

// putList puts elements where those of the same names are. There the order is the same, perhaps with others in between.
func (w treeWalk) putList(list *schema.List, values, into []any) {
	w.odd = w.odd || len(values) == 0
	at := 0
	for _, value := range values {
		name := w.nameOf(list, value)
		for at < len(into) && !w.odd && w.nameOf(list, into[at]) != name {
			at++
		}
		if w.odd = w.odd || at == len(into); w.odd {
			return
		}
		into[at] = w.put(list.ElementType, value, into[at])
		at++
	}
}

// nameOf is what an element is called.
func (w treeWalk) nameOf(list *schema.List, value any) string {
	if !identified(list, value) {
		w.odd = true
		return ""
	}
	w.text = w.text[:0]
	w.nameItem(list, value)
	return string(w.text)
}

// applied makes the set of what a configuration says, as the library does for what is applied: a map belongs to it only
// as far as its parts do, but for elements of lists and for maps whose names the schema does not know.
func (w treeWalk) applied(of schema.TypeRef, value any, skip *aside, to ref) {
	atom, ok := w.schema.Resolve(of)
	switch v := value.(type) {
	case map[string]any:
		if ok && atom.Map != nil && !atomicMap(atom.Map) {
			w.appliedMap(atom.Map, v, skip, to)
			w.nodes[to].member = len(v) == 0
			return
		}
	case []any:
		if ok && atom.List != nil && !atomicList(atom.List) {
			w.appliedList(atom.List, v, to)
			return
		}
	}
	w.odd = w.odd || !w.valid(of, value, once)
	w.nodes[to].member = true
}

func (w treeWalk) appliedMap(m *schema.Map, object map[string]any, skip *aside, to ref) {
	from := len(w.keys)
	for name := range object {
		w.keys = append(w.keys, name)
	}
	names := w.keys[from:]
	slices.Sort(names)
	var last ref
	for _, name := range names {
		of, declared, known := member(m, name)
		inner := skip.part(name)
		if !known || inner != nil && inner.whole && !w.valid(of, object[name], once) {
			w.odd = true
		}
		if w.odd {
			return
		}
		if inner != nil && inner.whole {
			continue
		}
		at := w.add(fieldStep, name)
		w.applied(of, object[name], inner, at)
		n := &w.nodes[at]
		n.member = (n.member || !declared) && (inner == nil || !inner.named)
		w.odd = w.odd || w.said(at) && !ordinary(name)
		w.keep(at, to, &last)
	}
	w.keys = w.keys[:from]
}

func (w treeWalk) appliedList(list *schema.List, elements []any, to ref) {
	from := len(w.items)
	w.named(list, elements)
	var last ref
	for _, e := range w.items[from:] {
		if w.odd {
			return
		}
		at := w.add(e.kind, e.name)
		w.applied(list.ElementType, e.value, nil, at)
		w.nodes[at].member = true
		w.keep(at, to, &last)
	}
	w.items = w.items[:from]
}
