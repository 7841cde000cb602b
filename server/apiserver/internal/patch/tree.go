package patch

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/resource/decode"
	"github.com/millrace/millrace/server/resource/tree"
)

// Tree is a merge patch for an object that is a tree. The patch is merged into a copy, without encoding and decoding.
//
// The result is the same as on the general path. A patch that changes an object's kind, or that contains lists with null, takes the general path.
type Tree map[string]any

// TreeOf decodes a patch of objects that are trees; nil if it has to take the general path.
func TreeOf(kind types.PatchType, text []byte) Tree {
	if kind != types.MergePatchType {
		return nil
	}
	changes, ok := decode.Tree(text)
	_, version := changes["apiVersion"]
	_, named := changes["kind"]
	if !ok || version || named || !mergeable(changes) {
		return nil
	}
	return changes
}

// mergeable reports whether no list contains null.
func mergeable(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, inner := range v {
			if !mergeable(inner) {
				return false
			}
		}
	case []any:
		return nullFree(v)
	}
	return true
}

func nullFree(value any) bool {
	switch v := value.(type) {
	case nil:
		return false
	case map[string]any:
		for _, inner := range v {
			if !nullFree(inner) {
				return false
			}
		}
	case []any:
		for _, inner := range v {
			if !nullFree(inner) {
				return false
			}
		}
	}
	return true
}

// Apply returns a patched copy of an object.
func (t Tree) Apply(face *resource.Face, old resource.Object) (changed *unstructured.Unstructured, ok bool) {
	u, isTree := old.(*unstructured.Unstructured)
	if t == nil || !isTree || face.From != nil {
		return nil, false
	}
	changed = tree.Copy(u)
	merge(changed.Object, t)
	changed.SetGroupVersionKind(face.GroupVersionKind)
	return changed, true
}

// merge patches an object. It copies values of the patch, so that the patch can be applied again.
func merge(object, patch map[string]any) {
	for name, value := range patch {
		switch v := value.(type) {
		case nil:
			delete(object, name)
		case map[string]any:
			inner, isMap := object[name].(map[string]any)
			if !isMap {
				inner = map[string]any{}
				object[name] = inner
			}
			merge(inner, v)
		default:
			object[name] = tree.CopyValue(value)
		}
	}
}
