// Package owned finds the objects that an object controls or might adopt, with an index of the shared informer.
package owned

import (
	"iter"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/informer"
)

// indexes are the indexes for one type of objects.
type indexes[T any] struct {
	byController *informer.Index[T] // by the controller's UID
	orphans      *informer.Index[T] // objects without controller, by namespace
}

// known has the indexes of each type, so that all loops of a process share them.
var known sync.Map // reflect.Type → indexes[T]

func indexesOf[T metav1.Object]() indexes[T] {
	made, ok := known.Load(reflect.TypeFor[T]())
	if !ok {
		made, _ = known.LoadOrStore(reflect.TypeFor[T](), indexes[T]{
			byController: informer.NewIndex(controllerUID[T]), orphans: informer.NewIndex(orphanNamespace[T]),
		})
	}
	return made.(indexes[T])
}

func controllerUID[T metav1.Object](object T) []string {
	if ref := metav1.GetControllerOfNoCopy(object); ref != nil {
		return []string{string(ref.UID)}
	}
	return nil
}

func orphanNamespace[T metav1.Object](object T) []string {
	if metav1.GetControllerOfNoCopy(object) == nil {
		return []string{object.GetNamespace()}
	}
	return nil
}

// Index adds the indexes that this package needs.
func Index[T metav1.Object](objects *informer.Shared[T]) *informer.Shared[T] {
	ix := indexesOf[T]()
	objects.AddIndex(ix.byController)
	objects.AddIndex(ix.orphans)
	return objects
}

// By ranges over the objects whose controller is owner.
func By[T metav1.Object](objects *informer.Shared[T], owner metav1.Object) iter.Seq[T] {
	return objects.By(indexesOf[T]().byController, string(owner.GetUID()))
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
		for object := range objects.By(indexesOf[T]().orphans, owner.GetNamespace()) {
			if selector.Matches(labels.Set(object.GetLabels())) && !yield(object) {
				return
			}
		}
	}
}

// Orphan reports whether the object has no controller.
func Orphan(object metav1.Object) bool { return metav1.GetControllerOfNoCopy(object) == nil }

// MatchingOwners returns the owners in the namespace of an orphan whose selector matches it: those that might adopt it.
func MatchingOwners[O metav1.Object](owners *informer.Shared[O], orphan metav1.Object, selector func(O) *metav1.LabelSelector) []informer.Key {
	var keys []informer.Key
	for owner := range owners.ListNamespace(orphan.GetNamespace()) {
		s, err := metav1.LabelSelectorAsSelector(selector(owner))
		if err == nil && !s.Empty() && s.Matches(labels.Set(orphan.GetLabels())) {
			keys = append(keys, informer.KeyOf(owner))
		}
	}
	return keys
}
