// Package owned finds what an object controls, and what it might adopt, without
// looking at anything else: by an index of the informer that the loops share.
package owned

import (
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/informer"
)

const (
	byController = "controller"
	orphans      = "orphan"
)

// Index adds the indexes that this package needs, unless another loop of the
// process has done so already.
func Index[T metav1.Object](objects *informer.Shared[T]) *informer.Shared[T] {
	_ = objects.AddIndex(byController, func(object T) []string {
		if ref := metav1.GetControllerOfNoCopy(object); ref != nil {
			return []string{string(ref.UID)}
		}
		return nil
	})
	_ = objects.AddIndex(orphans, func(object T) []string {
		if metav1.GetControllerOfNoCopy(object) == nil {
			return []string{object.GetNamespace()}
		}
		return nil
	})
	return objects
}

// By ranges over the objects whose controller is owner.
func By[T metav1.Object](objects *informer.Shared[T], owner metav1.Object) iter.Seq[T] {
	return objects.By(byController, string(owner.GetUID()))
}

// Candidates ranges over the objects whose controller is owner, and those that
// have no controller and match the selector.
func Candidates[T metav1.Object](objects *informer.Shared[T], owner metav1.Object, selector labels.Selector) iter.Seq[T] {
	return func(yield func(T) bool) {
		for object := range By(objects, owner) {
			if !yield(object) {
				return
			}
		}
		for object := range objects.By(orphans, owner.GetNamespace()) {
			if selector.Matches(labels.Set(object.GetLabels())) && !yield(object) {
				return
			}
		}
	}
}

// Orphan says that the object has no controller.
func Orphan(object metav1.Object) bool { return metav1.GetControllerOfNoCopy(object) == nil }

// Seekers are the owners in the namespace of an orphan whose selector matches
// it: those that might adopt it.
func Seekers[O metav1.Object](owners *informer.Shared[O], orphan metav1.Object, selector func(O) *metav1.LabelSelector) []informer.Key {
	var keys []informer.Key
	for owner := range owners.ListNamespace(orphan.GetNamespace()) {
		s, err := metav1.LabelSelectorAsSelector(selector(owner))
		if err == nil && !s.Empty() && s.Matches(labels.Set(orphan.GetLabels())) {
			keys = append(keys, informer.KeyOf(owner))
		}
	}
	return keys
}
