package tree

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Lean returns an object for callers that read its metadata but not the field sets of its managers, which would have to
// be encoded each time. If there is nothing to save, it returns the object itself.
func Lean(o metav1.Object) metav1.Object {
	if _, ok := Parts(o); ok {
		return o
	}
	u := Of(o)
	if u == nil {
		return o
	}
	managers, ok := Managers(ManagedFields(u))
	if !ok {
		return o
	}
	return lean{u, managers}
}

type lean struct {
	*unstructured.Unstructured
	managers []metav1.ManagedFieldsEntry
}

func (l lean) GetManagedFields() []metav1.ManagedFieldsEntry { return l.managers }

// ManagedFields returns an object's managed fields as they are in the tree; nil if there are none.
func ManagedFields(u *unstructured.Unstructured) any {
	meta, _ := u.Object["metadata"].(map[string]any)
	return meta["managedFields"]
}

// Managers decodes managed fields without their field sets. ok is false if the server would not have written them so.
func Managers(fields any) (managers []metav1.ManagedFieldsEntry, ok bool) {
	if fields == nil {
		return nil, true
	}
	list, ok := fields.([]any)
	if !ok {
		return nil, false
	}
	managers = make([]metav1.ManagedFieldsEntry, len(list))
	for i, value := range list {
		m, isMap := value.(map[string]any)
		if !isMap {
			return nil, false
		}
		for name, value := range m {
			if !readManager(&managers[i], name, value) {
				return nil, false
			}
		}
	}
	return managers, true
}

func readManager(e *metav1.ManagedFieldsEntry, name string, value any) bool {
	if name == "fieldsV1" {
		_, isMap := value.(map[string]any)
		return isMap
	}
	text, isText := value.(string)
	switch name {
	case "manager":
		e.Manager = text
	case "operation":
		e.Operation = metav1.ManagedFieldsOperationType(text)
	case "apiVersion":
		e.APIVersion = text
	case "fieldsType":
		e.FieldsType = text
	case "subresource":
		e.Subresource = text
	case "time":
		at, err := time.Parse(time.RFC3339, text)
		e.Time = &metav1.Time{Time: at}
		return isText && err == nil
	default:
		return false
	}
	return isText
}

// Copy returns a copy that may be modified. The managed fields, which are replaced and never modified, are shared.
func Copy(u *unstructured.Unstructured) *unstructured.Unstructured {
	out := make(map[string]any, len(u.Object))
	for name, value := range u.Object {
		if name != "metadata" {
			out[name] = CopyValue(value)
		}
	}
	if value, has := u.Object["metadata"]; has {
		out["metadata"] = value
	}
	if meta, isMap := u.Object["metadata"].(map[string]any); isMap {
		fresh := make(map[string]any, len(meta))
		for name, value := range meta {
			if name != "managedFields" {
				value = CopyValue(value)
			}
			fresh[name] = value
		}
		out["metadata"] = fresh
	}
	return &unstructured.Unstructured{Object: out}
}

// CopyValue returns a deep copy of a value.
func CopyValue(value any) any {
	switch v := value.(type) {
	case map[string]any:
		if v == nil {
			return v
		}
		out := make(map[string]any, len(v))
		for name, inner := range v {
			out[name] = CopyValue(inner)
		}
		return out
	case []any:
		if v == nil {
			return v
		}
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = CopyValue(inner)
		}
		return out
	}
	return value
}

// Equal compares two values as equality.Semantic does for trees: a nil map equals an empty one.
func Equal(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for name, value := range x {
			if other, has := y[name]; !has || !Equal(value, other) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !Equal(x[i], y[i]) {
				return false
			}
		}
		return true
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}
