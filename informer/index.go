package informer

import (
	"fmt"
	"reflect"

	"github.com/millrace/millrace/informer/internal/state"
)

// Index finds objects by values. It is made once, usually as a variable of a package, and added to informers:
//
//	var byNode = informer.FieldIndex[*corev1.Pod]("spec.nodeName")
//
//	pods.AddIndex(byNode)
//	for pod := range pods.By(byNode, "node-1") { … }
type Index[T any] struct {
	inner state.Index[T]
}

// NewIndex returns an index of each object under the values that the function returns for it. The result must depend on
// the object only.
func NewIndex[T any](values func(T) []string) *Index[T] {
	return &Index[T]{inner: state.Index[T]{Values: values}}
}

// FieldIndex returns an index by the value of a field, such as "spec.nodeName". A path may lead through lists, as
// "metadata.ownerReferences.uid" does, and must end at strings. A field that is not set has the value "". Where objects
// are kept encoded, such an index costs far less than one with a function. FieldIndex panics if the type has no such
// field.
func FieldIndex[T any](path string) *Index[T] {
	resolved, err := state.ResolvePath(reflect.TypeFor[T](), path)
	if err != nil {
		panic(fmt.Sprintf("informer: %v", err))
	}
	return &Index[T]{inner: state.Index[T]{Path: resolved}}
}
