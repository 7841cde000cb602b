package state

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer/key"
)

// Key is the namespace and name of an object.
type Key = key.Key

// KeyFunc returns the given function, or if it is nil one that reads the key from an object's metadata. That one panics
// if there is no metadata.
func KeyFunc[T any](given func(T) Key) func(T) Key {
	if given != nil {
		return given
	}
	return func(object T) Key {
		m, ok := any(object).(metav1.Object)
		if !ok {
			panic(fmt.Sprintf("informer: %T has no metadata, so the options need a key function", object))
		}
		return key.Of(m)
	}
}
