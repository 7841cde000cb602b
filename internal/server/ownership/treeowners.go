package ownership

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/decode"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

// In a tree the managed fields are a tree too. Their sets are compared as text, like those of other objects; what has
// not changed stays what it is.

// trackTree notes who has changed what. It tells false if the library has to do it.
func (q *quick) trackTree(old, obj resource.Object, manager string) bool {
	now := obj.(*unstructured.Unstructured)
	given := tree.ManagedFields(now)
	var stored any
	var left any
	var before, sent []metav1.ManagedFieldsEntry
	ok := true
	if old != nil {
		u := old.(*unstructured.Unstructured)
		left, stored = u.Object, tree.ManagedFields(u)
		if before, ok = readOwners(stored); !ok {
			return false
		}
	}
	if given != nil && old != nil && (sameList(given, stored) || sameTree(given, stored)) {
		sent = before
	} else if sent, ok = readOwners(given); !ok {
		return false
	}
	after, ok := q.track(left, now.Object, before, sent, manager)
	return ok && setOwners(now, before, stored, after)
}

// readOwners reads managed fields. ok is false if they are not what the server writes.
func readOwners(stored any) (entries []metav1.ManagedFieldsEntry, ok bool) {
	entries, ok = tree.Managers(stored)
	for i := range entries {
		if !ok {
			break
		}
		set, has := stored.([]any)[i].(map[string]any)["fieldsV1"]
		if !has {
			continue
		}
		text, err := tree.Append(nil, set.(map[string]any))
		entries[i].FieldsV1 = &metav1.FieldsV1{}
		entries[i].FieldsV1.SetRawBytes(text)
		ok = err == nil
	}
	return entries, ok
}

// sameList tells that two values are one list.
func sameList(a, b any) bool {
	x, _ := a.([]any)
	y, _ := b.([]any)
	return len(x) > 0 && len(x) == len(y) && &x[0] == &y[0]
}

// setOwners writes managed fields. Those that were read from a tree, and are as they were, stay what they are in it.
func setOwners(u *unstructured.Unstructured, before []metav1.ManagedFieldsEntry, stored any, after []metav1.ManagedFieldsEntry) bool {
	meta, ok := u.Object["metadata"].(map[string]any)
	if len(after) == 0 {
		delete(meta, "managedFields")
		return true
	}
	if !ok {
		meta = map[string]any{}
		u.Object["metadata"] = meta
	}
	list := make([]any, len(after))
	for i := range after {
		if list[i] = asItWas(&after[i], before, stored); list[i] != nil {
			continue
		}
		if list[i], ok = ownerTree(&after[i]); !ok {
			return false
		}
	}
	meta["managedFields"] = list
	return true
}

func asItWas(e *metav1.ManagedFieldsEntry, before []metav1.ManagedFieldsEntry, stored any) any {
	for i := range before {
		if b := &before[i]; b.FieldsV1 == e.FieldsV1 && b.Time == e.Time && identical(b, e) {
			return stored.([]any)[i]
		}
	}
	return nil
}

func ownerTree(e *metav1.ManagedFieldsEntry) (map[string]any, bool) {
	set, ok := decode.Tree(e.FieldsV1.GetRawBytes())
	m := map[string]any{
		"manager": e.Manager, "operation": string(e.Operation), "apiVersion": e.APIVersion, "fieldsType": e.FieldsType, "fieldsV1": set,
	}
	if e.Time != nil {
		m["time"] = e.Time.UTC().Format(time.RFC3339)
	}
	if e.Subresource != "" {
		m["subresource"] = e.Subresource
	}
	return m, ok
}
