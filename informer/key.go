package informer

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/informer/internal/state"
)

// Object is what Kubernetes clients deal in: *corev1.Pod, *unstructured.Unstructured and the like.
type Object interface {
	metav1.Object
	runtime.Object
}

// Key names an object among those of its kind, by its fields Namespace (empty for kinds without namespaces) and Name. Its
// String method returns namespace/name or name, Compare orders by namespace and then by name. It converts to and from
// types.NamespacedName.
type Key = state.Key

// KeyOf returns an object's key.
func KeyOf(object metav1.Object) Key { return state.KeyOf(object) }

// ParseKey reads what Key.String writes.
func ParseKey(s string) (Key, error) { return state.ParseKey(s) }
