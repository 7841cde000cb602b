package state

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Key is the namespace and name of an object. It converts to and from types.NamespacedName.
type Key struct {
	Namespace string // empty for kinds without namespaces
	Name      string
}

// KeyOf returns an object's key.
func KeyOf(object metav1.Object) Key {
	return Key{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// ParseKey parses the result of Key.String.
func ParseKey(s string) (Key, error) {
	namespace, name, found := strings.Cut(s, "/")
	if !found {
		namespace, name = "", s
	}
	if name == "" || strings.Contains(name, "/") {
		return Key{}, fmt.Errorf("key %q is not of the form namespace/name or name", s)
	}
	return Key{Namespace: namespace, Name: name}, nil
}

// String implements fmt.Stringer.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// Compare orders keys by namespace and then by name.
func (k Key) Compare(other Key) int {
	return cmp.Or(strings.Compare(k.Namespace, other.Namespace), strings.Compare(k.Name, other.Name))
}

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
		return KeyOf(m)
	}
}
