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

// Source lists and watches one kind of object. List returns one page. What a source delivers belongs to the receiver,
// which may modify it.
type Source[T any] interface {
	List(ctx context.Context, options metav1.ListOptions) ([]T, metav1.ListMeta, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Stream[T], error)
}

// Funcs is a Source made of two functions.
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

// Client is what client-go's typed clients have in common. Get is not called; it is there because it tells the compiler
// the type of the objects, so that For needs no type arguments.
type Client[T, L any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error)
}

// For makes a source of a typed client: For(clientset.CoreV1().Pods("default")).
func For[T Object, L runtime.Object](client Client[T, L]) Source[T] {
	return &typedSource[T, L]{client: client, watch: client.Watch, list: client.List}
}

// typedSource adapts anything that lists into a list object.
type typedSource[T Object, L runtime.Object] struct {
	client any
	scope  string // what is listed, where the client itself cannot tell
	list   func(context.Context, metav1.ListOptions) (L, error)
	watch  func(context.Context, metav1.ListOptions) (apiwatch.Interface, error)
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

// itemsOf returns pointers into the list's slice of items. Where an item outlives its list for long, as in a cache that
// keeps decoded objects, it keeps the whole slice alive; so each is moved to a place of its own.
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

// encoded implements encodable for clients that client-go has generated.
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

// resourceOf returns the name under which a generated client asks for its kind. The client has no method for it; where
// the field cannot be found the client is used in the ordinary way.
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

// Dynamic makes a source of a dynamic client, for a kind without a Go type. An empty namespace means all.
func Dynamic(client dynamic.Interface, resource schema.GroupVersionResource, namespace string) Source[*unstructured.Unstructured] {
	var scoped dynamic.ResourceInterface = client.Resource(resource)
	if namespace != "" {
		scoped = client.Resource(resource).Namespace(namespace)
	}
	return &typedSource[*unstructured.Unstructured, *unstructured.UnstructuredList]{
		client: client, scope: resource.String() + "/" + namespace, list: scoped.List, watch: scoped.Watch,
	}
}

// Metadata makes a source of a metadata client: the server sends labels, annotations, owners and so on, nothing else.
// An empty namespace means all.
func Metadata(client metadata.Interface, resource schema.GroupVersionResource, namespace string) Source[*metav1.PartialObjectMetadata] {
	var scoped metadata.ResourceInterface = client.Resource(resource)
	if namespace != "" {
		scoped = client.Resource(resource).Namespace(namespace)
	}
	return &typedSource[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList]{
		client: client, scope: resource.String() + "/" + namespace, list: scoped.List, watch: scoped.Watch,
	}
}
