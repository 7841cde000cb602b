package ownership

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

// Of an object whose parts are texts, only those parts are decoded that a change has changed, and the metadata only if
// something that has an owner is different. What is left out is the same in both objects.

// trackParts notes who has changed what. It tells false if the objects have to be trees for that.
func (q *quick) trackParts(old, obj resource.Object, manager string) bool {
	now, ok := tree.Parts(obj)
	if !ok {
		return false
	}
	var before *tree.Object
	var left any
	var owners []metav1.ManagedFieldsEntry
	right := map[string]any{}
	if old != nil {
		// Without the check nobody knows whether parts that have not changed are what the schema says.
		if before, ok = tree.Parts(old); !ok || !now.Checked() {
			return false
		}
		owners = before.GetManagedFields()
		left = differing(before, now, right)
	} else {
		addParts(right, now, nil)
		right["metadata"] = ownedMetadata(now.Metadata())
	}
	after, ok := q.track(left, right, owners, now.GetManagedFields(), manager)
	if ok {
		now.SetManagedFields(after)
	}
	return ok
}

// differing returns the parts of one object that are not the same in another one, and adds those of the other one to
// right.
func differing(before, now *tree.Object, right map[string]any) (left map[string]any) {
	left = map[string]any{}
	addParts(left, before, now)
	addParts(right, now, before)
	if a, b := before.Metadata(), now.Metadata(); !sameOwned(a, b) {
		left["metadata"], right["metadata"] = ownedMetadata(a), ownedMetadata(b)
	}
	return left
}

// addParts adds the parts of an object that another one, which may be nil, does not have or has differently.
func addParts(to map[string]any, o, other *tree.Object) {
	parts := o.All()
	for i := range parts {
		p := &parts[i]
		if other != nil {
			if same := other.Part(p.Name); same != nil && same.Text == p.Text {
				continue
			}
		}
		to[p.Name] = p.Value()
	}
}

// sameOwned tells whether what has owners is the same in two metadata.
func sameOwned(a, b *metav1.ObjectMeta) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) && slices.Equal(a.Finalizers, b.Finalizers) &&
		a.GenerateName == b.GenerateName && sameOwners(a.OwnerReferences, b.OwnerReferences) && a.DeletionTimestamp.Equal(b.DeletionTimestamp) &&
		sameNumber(a.DeletionGracePeriodSeconds, b.DeletionGracePeriodSeconds)
}

func sameNumber(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }

func sameOwners(a, b []metav1.OwnerReference) bool {
	return len(a)+len(b) == 0 || equality.Semantic.DeepEqual(a, b)
}

// ownedMetadata is what has owners in metadata, as a tree.
func ownedMetadata(m *metav1.ObjectMeta) map[string]any {
	out := map[string]any{}
	addTexts(out, "labels", m.Labels)
	addTexts(out, "annotations", m.Annotations)
	if m.GenerateName != "" {
		out["generateName"] = m.GenerateName
	}
	if len(m.Finalizers) > 0 {
		all := make([]any, len(m.Finalizers))
		for i, f := range m.Finalizers {
			all[i] = f
		}
		out["finalizers"] = all
	}
	if m.DeletionTimestamp != nil {
		out["deletionTimestamp"] = m.DeletionTimestamp.UTC().Format(time.RFC3339)
	}
	if m.DeletionGracePeriodSeconds != nil {
		out["deletionGracePeriodSeconds"] = *m.DeletionGracePeriodSeconds
	}
	if len(m.OwnerReferences) > 0 {
		all := make([]any, len(m.OwnerReferences))
		for i := range m.OwnerReferences {
			all[i] = ownerTreeOf(&m.OwnerReferences[i])
		}
		out["ownerReferences"] = all
	}
	return out
}

func addTexts(to map[string]any, name string, values map[string]string) {
	if len(values) == 0 {
		return
	}
	all := make(map[string]any, len(values))
	for key, value := range values {
		all[key] = value
	}
	to[name] = all
}

func ownerTreeOf(o *metav1.OwnerReference) map[string]any {
	out := map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind, "name": o.Name, "uid": string(o.UID)}
	if o.Controller != nil {
		out["controller"] = *o.Controller
	}
	if o.BlockOwnerDeletion != nil {
		out["blockOwnerDeletion"] = *o.BlockOwnerDeletion
	}
	return out
}
