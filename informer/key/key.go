// Package key has the keys of objects. A key names an object among those of one kind. informer.Key and loop.Key are
// this type.
package key

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

// Of returns an object's key.
func Of(object metav1.Object) Key {
	return Key{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// Parse parses the result of Key.String.
func Parse(s string) (Key, error) {
	namespace, name, found := strings.Cut(s, "/")
	if !found {
		namespace, name = "", s
	}
	if name == "" || strings.Contains(name, "/") {
		return Key{}, fmt.Errorf("key %q is not of the form namespace/name or name", s)
	}
	return Key{Namespace: namespace, Name: name}, nil
}

// String returns namespace/name, or the name of a key without a namespace.
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
