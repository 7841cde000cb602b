package patch

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/decode"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

// Tree is a merge patch for an object that is a tree. The patch is merged into a copy, without encoding and decoding.
//
// The result is the same as on the general path. A patch that changes an object's kind, or that contains lists with
// null, takes the general path.
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
func (t Tree) Apply(face *resource.Face, old resource.Object) (changed *tree.Object, ok bool) {
	if t == nil || face.From != nil {
		return nil, false
	}
	if parts, isTexts := tree.Parts(old); isTexts {
		if changed, ok = t.applyParts(parts); ok {
			changed.SetGroupVersionKind(face.GroupVersionKind)
			return changed, true
		}
	}
	u := tree.Of(old)
	if u == nil {
		return nil, false
	}
	u = tree.Copy(u)
	merge(u.Object, t)
	u.SetGroupVersionKind(face.GroupVersionKind)
	return tree.NewObject(u), true
}

// applyParts patches an object whose parts are texts, and decodes only those parts that the patch names.
func (t Tree) applyParts(old *tree.Object) (changed *tree.Object, ok bool) {
	changed = old.Copy()
	for name, value := range t {
		patch, isMap := value.(map[string]any)
		switch {
		case name == "metadata":
			if !isMap || !changed.ChangeMetadata(func(metadata map[string]any) { merge(metadata, patch) }) {
				return nil, false
			}
			continue
		case isMap:
			inner := map[string]any{}
			if part := old.Part(name); part != nil && part.Text[0] == '{' {
				inner = part.Decode().(map[string]any)
			}
			merge(inner, patch)
			value = inner
		default:
			value = tree.CopyValue(value)
		}
		if !changed.Set(name, value) {
			return nil, false
		}
	}
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
