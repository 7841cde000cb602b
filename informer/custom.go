package informer

import (
	"fmt"
	"net/http"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// ResourceFor returns a client for any kind, for example of a custom resource. Objects are decoded into the caller's
// own Go type, or into unstructured trees:
//
//	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Website"}
//	sites, err := informer.ResourceFor[*Website](config, nil, kind, "websites")
//	trees, err := informer.ResourceFor[*unstructured.Unstructured](config, nil, kind, "websites")
//
// The HTTP client may be nil. Pass one to share its connections.
func ResourceFor[T Object](config *rest.Config, client *http.Client, kind schema.GroupVersionKind, resource string) (Resource[T], error) {
	version := kind.GroupVersion()
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &version, "/apis"
	if kind.Group == "" {
		config.APIPath = "/api"
	}
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(schemeOf[T](kind)).WithoutConversion()
	if client == nil {
		var err error
		if client, err = rest.HTTPClientFor(config); err != nil {
			return Resource[T]{}, fmt.Errorf("connect for %s: %w", resource, err)
		}
	}
	connection, err := rest.RESTClientForConfigAndClient(config, client)
	if err != nil {
		return Resource[T]{}, fmt.Errorf("make a client for %s: %w", resource, err)
	}
	return ResourceOf[T](connection, resource), nil
}

// schemeOf returns a scheme with one kind and its list kind.
func schemeOf[T Object](kind schema.GroupVersionKind) *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(kind, newObject[T]())
	var list runtime.Object = &listOf[T]{}
	if reflect.TypeFor[T]() == reflect.TypeFor[*unstructured.Unstructured]() {
		list = &unstructured.UnstructuredList{}
	}
	scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind(kind.Kind+"List"), list)
	metav1.AddToGroupVersion(scheme, kind.GroupVersion())
	metav1.AddToGroupVersion(scheme, metav1.Unversioned) // errors are of this version
	return scheme
}

func newObject[T Object]() T { return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T) }

// listOf is a list of objects of any type.
type listOf[T Object] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []T `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *listOf[T]) DeepCopyObject() runtime.Object {
	same := &listOf[T]{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for _, item := range l.Items {
		same.Items = append(same.Items, item.DeepCopyObject().(T))
	}
	return same
}
