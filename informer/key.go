package informer

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/informer/key"
)

// Object is any object of a Kubernetes client: *corev1.Pod, *unstructured.Unstructured and so on.
type Object interface {
	metav1.Object
	runtime.Object
}

// Key has the Namespace (empty for cluster-scoped kinds) and the Name of an object. Its String method returns
// namespace/name or name. Compare orders by namespace and then by name. It converts to and from types.NamespacedName.
type Key = key.Key

// KeyOf returns an object's key.
func KeyOf(object metav1.Object) Key { return key.Of(object) }

// ParseKey parses the result of Key.String.
func ParseKey(s string) (Key, error) { return key.Parse(s) }
