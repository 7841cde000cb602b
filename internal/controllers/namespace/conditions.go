package namespace

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// round is the result of one pass over a namespace.
type round struct {
	discovery  error
	failures   []error
	remaining  map[schema.GroupResource]int
	finalizers map[string]int
}

// finished reports whether the namespace is certainly empty.
func (r *round) finished() bool {
	return r.discovery == nil && len(r.failures) == 0 && len(r.remaining) == 0
}

// conditions returns the namespace's conditions. All are set from the first round on, with status False if there is
// nothing to wait for.
func (r *round) conditions(now metav1.Time) []corev1.NamespaceCondition {
	out := []corev1.NamespaceCondition{
		{Type: corev1.NamespaceDeletionDiscoveryFailure, Status: corev1.ConditionFalse, Reason: "ResourcesDiscovered", Message: "All resources successfully discovered"},
		{Type: corev1.NamespaceDeletionGVParsingFailure, Status: corev1.ConditionFalse, Reason: "ParsedGroupVersions", Message: "All legacy kube types successfully parsed"},
		{Type: corev1.NamespaceDeletionContentFailure, Status: corev1.ConditionFalse, Reason: "ContentDeleted", Message: "All content successfully deleted, may be waiting on finalization"},
		{Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionFalse, Reason: "ContentRemoved", Message: "All content successfully removed"},
		{Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionFalse, Reason: "ContentHasNoFinalizers", Message: "All content-preserving finalizers finished"},
	}
	hold := func(i int, reason, message string) {
		out[i].Status, out[i].Reason, out[i].Message = corev1.ConditionTrue, reason, message
	}
	if r.discovery != nil {
		hold(0, "DiscoveryFailed", "Discovery failed for some groups, "+r.discovery.Error())
	}
	if len(r.failures) > 0 {
		var texts []string
		for _, err := range r.failures {
			texts = append(texts, err.Error())
		}
		slices.Sort(texts)
		hold(2, "ContentDeletionFailed", fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(texts), strings.Join(texts, ", ")))
	}
	if len(r.remaining) > 0 {
		hold(3, "SomeResourcesRemain", "Some resources are remaining: "+listed(r.remaining, func(kind schema.GroupResource, n int) string {
			return fmt.Sprintf("%s.%s has %d resource instances", kind.Resource, kind.Group, n)
		}))
	}
	if len(r.finalizers) > 0 {
		hold(4, "SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "+listed(r.finalizers, func(finalizer string, n int) string {
			return fmt.Sprintf("%s in %d resource instances", finalizer, n)
		}))
	}
	for i := range out {
		out[i].LastTransitionTime = now
	}
	return out
}

func listed[K comparable](counts map[K]int, say func(K, int) string) string {
	var out []string
	for key, n := range counts {
		out = append(out, say(key, n))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// merge replaces conditions of the same type, and reports whether anything has changed. The transition time changes
// only with the status.
func merge(into *[]corev1.NamespaceCondition, conditions []corev1.NamespaceCondition) bool {
	changed := false
	for _, c := range conditions {
		i := slices.IndexFunc(*into, func(old corev1.NamespaceCondition) bool { return old.Type == c.Type })
		if i < 0 {
			*into, changed = append(*into, c), true
			continue
		}
		old := &(*into)[i]
		if old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		*old, changed = c, true
	}
	return changed
}
