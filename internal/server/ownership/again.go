package ownership

import (
	"maps"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/server/resource"
)

// A client that applies mostly applies the same fields again, with other values or with none that are new. Then nothing
// comes and goes, nobody else is concerned, and merging is copying values to where they are already: that is done here,
// without the library, which needs a millisecond for it. It is left to the library as soon as there is more to it.

// again applies a configuration. ok is false if the library has to do it.
func (q *quick) again(face *resource.Face, live resource.Object, configuration runtime.Object, manager string) (merged resource.Object, ok bool) {
	u, isTree := configuration.(runtime.Unstructured)
	before := live.GetManagedFields()
	mine := slices.IndexFunc(before, func(e metav1.ManagedFieldsEntry) bool { return q.applies(&e, manager) })
	if _, old := live.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; !isTree || old || mine < 0 || !q.readable(&before[mine]) {
		return nil, false
	}
	content, ok := fields(u.UnstructuredContent(), live)
	if !ok {
		return nil, false
	}
	typed := face.New()
	const strictly = true
	if runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.UnstructuredContent(), typed, strictly) != nil {
		return nil, false
	}
	merged = live.DeepCopyObject().(resource.Object)
	c := workspaces.Get().(*comparison)
	defer c.release()
	if !c.copyAll(q.shape, content, reflect.ValueOf(typed).Elem(), reflect.ValueOf(merged).Elem(), before[mine].FieldsV1.GetRawString()) {
		return nil, false
	}
	c.find(q.shape, reflect.ValueOf(live).Elem(), reflect.ValueOf(merged).Elem())
	after, ok := q.undisturbed(c, before, mine)
	if !ok || c.odd || c.lost {
		return nil, false
	}
	if !c.empty(c.changed) {
		merged.SetManagedFields(after)
	}
	merged.GetObjectKind().SetGroupVersionKind(face.GroupVersionKind)
	face.Of.Default(merged)
	return merged, true
}

// applies tells the entry of what a manager has applied.
func (q *quick) applies(e *metav1.ManagedFieldsEntry, manager string) bool {
	return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.APIVersion == q.version && e.Subresource == q.view
}

// fields are what a configuration says beyond which object it is about.
func fields(content map[string]any, live resource.Object) (rest map[string]any, ok bool) {
	rest = maps.Clone(content)
	delete(rest, "apiVersion")
	delete(rest, "kind")
	meta, ok := content["metadata"].(map[string]any)
	if name, given := meta["name"]; !ok || given && name != live.GetName() {
		return nil, false
	}
	if namespace, given := meta["namespace"]; given && namespace != live.GetNamespace() {
		return nil, false
	}
	meta = maps.Clone(meta)
	delete(meta, "name")
	delete(meta, "namespace")
	if rest["metadata"] = meta; len(meta) == 0 {
		delete(rest, "metadata")
	}
	return rest, true
}

// undisturbed are the managed fields if nobody else owns what has changed.
func (q *quick) undisturbed(c *comparison, before []metav1.ManagedFieldsEntry, mine int) (after []metav1.ManagedFieldsEntry, ok bool) {
	after = slices.Clone(before)
	for i := range after {
		e := &after[i]
		if !q.readable(e) || slices.ContainsFunc(before[:i], func(o metav1.ManagedFieldsEntry) bool { return identical(&o, e) }) {
			return nil, false
		}
		mark := len(c.nodes)
		set := q.read(c, e.FieldsV1.GetRawString())
		if c.odd || i != mine && c.touches(set, c.changed) {
			return nil, false
		}
		c.nodes = c.nodes[:mark]
	}
	after[mine].Time = &metav1.Time{Time: time.Now().UTC()}
	slices.SortFunc(after, order)
	return after, true
}
