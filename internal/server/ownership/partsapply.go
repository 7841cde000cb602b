package ownership

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

// applyParts applies the fields that a manager has applied before to an object whose parts are texts. It decodes those
// parts that the configuration names.
func (q *quick) applyParts(face *resource.Face, live resource.Object, configuration runtime.Object, manager string) (merged *tree.Object, ok bool) {
	now, isTexts := tree.Parts(live)
	u, isTree := configuration.(*unstructured.Unstructured)
	if !isTexts || !isTree || manager == "" || hasLastApplied(u) {
		return nil, false
	}
	before := now.GetManagedFields()
	mine := slices.IndexFunc(before, func(e metav1.ManagedFieldsEntry) bool { return q.applies(&e, manager) })
	if _, has := now.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; has || mine < 0 || !q.readable(&before[mine]) || !q.sameObject(now, u) {
		return nil, false
	}
	c := workspaces.Get().(*comparison)
	defer c.release()
	set, ok := q.appliedSet(c, u.Object)
	if !ok {
		return nil, false
	}
	last := q.read(c, before[mine].FieldsV1.GetRawString())
	if c.odd || !c.holds(last, set) || !c.holds(set, last) {
		return nil, false
	}
	left, right, ok := q.putParts(c, now, u.Object)
	if !ok {
		return nil, false
	}
	c.findTrees(q.trees, left, right)
	after, ok := q.undisturbed(c, before, mine)
	if !ok || c.odd || c.lost {
		return nil, false
	}
	out := now.Copy()
	if !c.empty(c.changed) && !setParts(out, now, right) {
		return nil, false
	}
	out.SetGroupVersionKind(face.GroupVersionKind)
	face.Of.Default(out)
	// Nothing is known of the parts that were left out if the object was not found right.
	if _, isTexts := tree.Parts(out); !isTexts || !out.Checked() {
		return nil, false
	}
	// What was filled in may make of a list what it was.
	if !tree.SameParts(out, now) || !sameOwned(out.Metadata(), now.Metadata()) {
		out.SetManagedFields(after)
	}
	return out, true
}

// putParts returns the parts that a configuration names, as they are and as they will be.
func (q *quick) putParts(c *comparison, now *tree.Object, configuration map[string]any) (left, right map[string]any, ok bool) {
	atom, _ := q.trees.schema.Resolve(q.trees.root)
	w := treeWalk{c, q.trees}
	left, right = map[string]any{}, map[string]any{}
	for name, value := range configuration {
		var into any
		switch name {
		case "apiVersion", "kind":
			continue
		case "metadata":
			given, isMap := value.(map[string]any)
			if !isMap {
				return nil, nil, false
			}
			given = maps.Clone(given)
			delete(given, "name")
			delete(given, "namespace")
			if len(given) == 0 {
				continue
			}
			value, left[name], into = given, ownedMetadata(now.Metadata()), ownedMetadata(now.Metadata())
		default:
			part := now.Part(name)
			if part == nil {
				return nil, nil, false
			}
			left[name], into = part.Value(), part.Decode()
		}
		of, _, _ := member(atom.Map, name)
		if right[name] = w.put(of, value, into); w.odd {
			return nil, nil, false
		}
	}
	return left, right, true
}

// setParts sets parts, and metadata if it has changed.
func setParts(out, now *tree.Object, parts map[string]any) bool {
	for name, value := range parts {
		if name != "metadata" {
			if !out.Set(name, value) {
				return false
			}
			continue
		}
		given := value.(map[string]any)
		if sameTree(given, ownedMetadata(now.Metadata())) {
			continue
		}
		if !out.ChangeMetadata(func(metadata map[string]any) { maps.Copy(metadata, given) }) {
			return false
		}
	}
	return true
}
