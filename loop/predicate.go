package loop

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
)

// Predicate reports whether a change wakes a loop. before is T's zero value when an object was added, after when it was
// deleted. Predicates only save work; a loop must be correct without them.
type Predicate[T any] func(before, after T) bool

// SpecChanged accepts changes of an object's generation, additions, deletions, and the setting of a deletion timestamp.
// It ignores changes of the status.
func SpecChanged[T informer.Object](before, after T) bool {
	return createdOrDeleted(before, after) || before.GetGeneration() != after.GetGeneration() ||
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil)
}

// LabelsChanged accepts changes of an object's labels, additions and deletions.
func LabelsChanged[T informer.Object](before, after T) bool {
	return createdOrDeleted(before, after) || !maps.Equal(before.GetLabels(), after.GetLabels())
}

func createdOrDeleted[T metav1.Object](before, after T) bool {
	var none T
	return any(before) == any(none) || any(after) == any(none)
}

// Gone accepts only deletions.
func Gone[T informer.Object](_, after T) bool {
	var none T
	return any(after) == any(none)
}

// pass reports whether all predicates accept a change.
func pass[T any](predicates []Predicate[T], before, after T) bool {
	for _, p := range predicates {
		if !p(before, after) {
			return false
		}
	}
	return true
}
