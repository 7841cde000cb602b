package loop

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
)

// Predicate says whether a change wakes a loop. before is T's zero value when
// an object was added, after when it was deleted. Predicates save work; a loop
// must be correct without them.
type Predicate[T any] func(before, after T) bool

// SpecChanged lets pass what changes an object's generation, that is its spec,
// and what adds, deletes or begins to delete it: not changes of its status.
func SpecChanged[T informer.Object](before, after T) bool {
	return comesOrGoes(before, after) || before.GetGeneration() != after.GetGeneration() ||
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil)
}

// LabelsChanged lets pass what changes an object's labels, and what adds or
// deletes it.
func LabelsChanged[T informer.Object](before, after T) bool {
	return comesOrGoes(before, after) || !maps.Equal(before.GetLabels(), after.GetLabels())
}

func comesOrGoes[T metav1.Object](before, after T) bool {
	var none T
	return any(before) == any(none) || any(after) == any(none)
}

// Gone lets pass deletions only.
func Gone[T informer.Object](_, after T) bool {
	var none T
	return any(after) == any(none)
}

// pass reports whether all predicates let a change pass.
func pass[T any](predicates []Predicate[T], before, after T) bool {
	for _, p := range predicates {
		if !p(before, after) {
			return false
		}
	}
	return true
}
