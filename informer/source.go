package informer

import (
	"context"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/informer/internal/wire"
	"github.com/millrace/millrace/watch"
)

// Source lists and watches one kind of object. List returns one page. The receiver owns what a source delivers, and may
// modify it.
type Source[T any] interface {
	List(ctx context.Context, options metav1.ListOptions) ([]T, metav1.ListMeta, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Stream[T], error)
}

// Funcs is a Source that consists of two functions.
type Funcs[T any] struct {
	ListFunc  func(ctx context.Context, options metav1.ListOptions) ([]T, metav1.ListMeta, error)
	WatchFunc func(ctx context.Context, options metav1.ListOptions) (watch.Stream[T], error)
}

// List calls ListFunc.
func (f Funcs[T]) List(ctx context.Context, options metav1.ListOptions) ([]T, metav1.ListMeta, error) {
	return f.ListFunc(ctx, options)
}

// Watch calls WatchFunc.
func (f Funcs[T]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Stream[T], error) {
	return f.WatchFunc(ctx, options)
}

// Client is the common part of client-go's typed clients. Get is not called; from it the compiler infers the type of
// the objects, so For needs no type arguments.
type Client[T, L any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error)
}

// For makes a source from a typed client: For(clientset.CoreV1().Pods("default")).
func For[T Object, L runtime.Object](client Client[T, L]) Source[T] {
	return &typedSource[T, L]{client: client, watch: client.Watch, list: client.List}
}

// typedSource is a source over functions that return a list object and a watch.
type typedSource[T Object, L runtime.Object] struct {
	client   any
	scope    string               // what is listed, if the client itself cannot tell
	resource schema.GroupResource // likewise
	list     func(context.Context, metav1.ListOptions) (L, error)
	watch    func(context.Context, metav1.ListOptions) (apiwatch.Interface, error)
}

func (s *typedSource[T, L]) List(ctx context.Context, options metav1.ListOptions) ([]T, metav1.ListMeta, error) {
	list, err := s.list(ctx, options)
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	return openList[T](list)
}

func (s *typedSource[T, L]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Stream[T], error) {
	options.Watch = true
	w, err := s.watch(ctx, options)
	if err != nil {
		return nil, err
	}
	return watch.FromAPI[T](w), nil
}

// itemsOf returns pointers to the list's items. A pointer into the list's slice keeps the whole slice in memory. So
// where items are kept for long, as in a cache of decoded objects, each is copied first.
func itemsOf[T Object](list runtime.Object) ([]T, error) {
	field := reflect.ValueOf(list).Elem().FieldByName("Items")
	if !field.IsValid() || field.Kind() != reflect.Slice {
		return nil, fmt.Errorf("%T has no list of items", list)
	}
	items := make([]T, field.Len())
	for i := range items {
		element := field.Index(i)
		if element.Kind() != reflect.Pointer {
			own := reflect.New(element.Type())
			own.Elem().Set(element)
			element = own
		}
		item, ok := element.Interface().(T)
		if !ok {
			return nil, fmt.Errorf("%T has items of type %s", list, element.Type())
		}
		items[i] = item
	}
	return items, nil
}

// encoded implements encodable for client-go's generated clients.
func (s *typedSource[T, L]) encoded(dropManagedFields bool) (Source[*wire.Object], bool) {
	client, ok := s.client.(interface {
		GetClient() rest.Interface
		GetNamespace() string
	})
	if !ok || !wire.Supports[T]() {
		return nil, false
	}
	resource := resourceOf(s.client)
	if resource == "" {
		return nil, false
	}
	return wire.Over(client.GetClient(), client.GetNamespace(), resource, wire.Source[T](s), dropManagedFields), true
}

// resourceOf returns the resource name of a generated client. There is no method for it, so a field is read by
// reflection; without that field the client is used in the ordinary way.
func resourceOf(client any) string {
	v := reflect.Indirect(reflect.ValueOf(client))
	if v.Kind() != reflect.Struct {
		return ""
	}
	field := v.FieldByName("resource")
	if !field.IsValid() || field.Kind() != reflect.String {
		return ""
	}
	return field.String()
}

// Dynamic makes a source from a dynamic client, for a kind without a Go type. An empty namespace means all.
func Dynamic(client dynamic.Interface, resource schema.GroupVersionResource, namespace string) Source[*unstructured.Unstructured] {
	var scoped dynamic.ResourceInterface = client.Resource(resource)
	if namespace != "" {
		scoped = client.Resource(resource).Namespace(namespace)
	}
	return &typedSource[*unstructured.Unstructured, *unstructured.UnstructuredList]{
		client: client, scope: resource.String() + "/" + namespace, resource: resource.GroupResource(), list: scoped.List, watch: scoped.Watch,
	}
}

// Metadata makes a source from a metadata client: the server sends only the objects' metadata. An empty namespace means
// all.
func Metadata(client metadata.Interface, resource schema.GroupVersionResource, namespace string) Source[*metav1.PartialObjectMetadata] {
	var scoped metadata.ResourceInterface = client.Resource(resource)
	if namespace != "" {
		scoped = client.Resource(resource).Namespace(namespace)
	}
	return &typedSource[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList]{
		client: client, scope: resource.String() + "/" + namespace, resource: resource.GroupResource(), list: scoped.List, watch: scoped.Watch,
	}
}
