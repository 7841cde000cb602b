package informer

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/informer/internal/wire"
	"github.com/millrace/millrace/watch"
)

// Resource is a small typed client for one kind. It builds requests from verb, namespace, resource, typed parameters
// and selectors. Its methods return changed copies, so one can be kept and restricted further:
//
//	pods := informer.ResourceOf[*corev1.Pod](clientset.CoreV1().RESTClient(), "pods")
//	own := pods.WithField("spec.nodeName", name)
//
// It is a Source, restricted to its namespace and selectors.
type Resource[T Object] struct {
	client      rest.Interface
	name        string
	namespace   string
	subresource string
	labels      labels.Selector
	fields      fields.Selector
}

// ResourceOf returns a client for a resource, such as "pods", of a connection's group and version.
func ResourceOf[T Object](client rest.Interface, name string) Resource[T] {
	return Resource[T]{client: client, name: name, labels: labels.Everything(), fields: fields.Everything()}
}

// InNamespace restricts requests to a namespace.
func (r Resource[T]) InNamespace(namespace string) Resource[T] {
	r.namespace = namespace
	return r
}

// WithField restricts lists and watches to objects whose field has a value.
func (r Resource[T]) WithField(field, value string) Resource[T] {
	r.fields = both(r.fields, fields.OneTermEqualSelector(field, value))
	return r
}

// WithLabels restricts lists and watches to objects whose labels match.
func (r Resource[T]) WithLabels(selector labels.Selector) Resource[T] {
	requirements, _ := selector.Requirements()
	r.labels = r.labels.Add(requirements...)
	return r
}

// SubResource directs requests for one object to a subresource, such as "status".
func (r Resource[T]) SubResource(name string) Resource[T] {
	r.subresource = name
	return r
}

// Get reads one object.
func (r Resource[T]) Get(ctx context.Context, name string, options metav1.GetOptions) (T, error) {
	return r.object(r.to(r.client.Get(), name).SpecificallyVersionedParams(&options, metav1.ParameterCodec, metav1.Unversioned).Do(ctx))
}

// Create creates an object.
func (r Resource[T]) Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error) {
	return r.object(r.to(r.client.Post(), "").SpecificallyVersionedParams(&options, metav1.ParameterCodec, metav1.Unversioned).Body(object).Do(ctx))
}

// Update replaces the object with this name.
func (r Resource[T]) Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error) {
	return r.object(r.to(r.client.Put(), object.GetName()).SpecificallyVersionedParams(&options, metav1.ParameterCodec, metav1.Unversioned).Body(object).Do(ctx))
}

// Patch changes an object.
func (r Resource[T]) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, options metav1.PatchOptions) (T, error) {
	return r.object(r.to(r.client.Patch(kind), name).SpecificallyVersionedParams(&options, metav1.ParameterCodec, metav1.Unversioned).Body(patch).Do(ctx))
}

// Delete deletes an object.
func (r Resource[T]) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	return r.to(r.client.Delete(), name).Body(&options).Do(ctx).Error()
}

// List implements Source.
func (r Resource[T]) List(ctx context.Context, options metav1.ListOptions) ([]T, metav1.ListMeta, error) {
	options, err := r.selected(options)
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	list, err := r.to(r.client.Get(), "").SpecificallyVersionedParams(&options, metav1.ParameterCodec, metav1.Unversioned).Timeout(wire.Timeout(options)).Do(ctx).Get()
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	return openList[T](list)
}

// Watch implements Source.
func (r Resource[T]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Stream[T], error) {
	options, err := r.selected(options)
	if err != nil {
		return nil, err
	}
	options.Watch = true
	w, err := r.to(r.client.Get(), "").SpecificallyVersionedParams(&options, metav1.ParameterCodec, metav1.Unversioned).Timeout(wire.Timeout(options)).Watch(ctx)
	if err != nil {
		return nil, err
	}
	return watch.FromAPI[T](w), nil
}

func (r Resource[T]) to(request *rest.Request, name string) *rest.Request {
	request = request.UseProtobufAsDefaultIfPreferred(wire.Supports[T]()).
		NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.name)
	if name == "" {
		return request
	}
	request = request.Name(name)
	if r.subresource != "" {
		request = request.SubResource(r.subresource)
	}
	return request
}

func (r Resource[T]) object(result rest.Result) (T, error) {
	object := newObject[T]()
	err := result.Into(object)
	return object, err
}

// selected adds the resource's selectors to those of a request.
func (r Resource[T]) selected(options metav1.ListOptions) (metav1.ListOptions, error) {
	byLabel, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return options, fmt.Errorf("label selector %q: %w", options.LabelSelector, err)
	}
	byField, err := fields.ParseSelector(options.FieldSelector)
	if err != nil {
		return options, fmt.Errorf("field selector %q: %w", options.FieldSelector, err)
	}
	requirements, _ := byLabel.Requirements()
	options.LabelSelector = r.labels.Add(requirements...).String()
	options.FieldSelector = both(r.fields, byField).String()
	return options, nil
}

func both(a, b fields.Selector) fields.Selector {
	switch {
	case a.Empty():
		return b
	case b.Empty():
		return a
	}
	return fields.AndSelectors(a, b)
}

// encoded implements encodable.
func (r Resource[T]) encoded(dropManagedFields bool) (Source[*wire.Object], bool) {
	if !wire.Supports[T]() {
		return nil, false
	}
	all := wire.Over(r.client, r.namespace, r.name, wire.Source[T](r), dropManagedFields)
	return Funcs[*wire.Object]{
		ListFunc: func(ctx context.Context, options metav1.ListOptions) ([]*wire.Object, metav1.ListMeta, error) {
			options, err := r.selected(options)
			if err != nil {
				return nil, metav1.ListMeta{}, err
			}
			return all.List(ctx, options)
		},
		WatchFunc: func(ctx context.Context, options metav1.ListOptions) (watch.Stream[*wire.Object], error) {
			options, err := r.selected(options)
			if err != nil {
				return nil, err
			}
			return all.Watch(ctx, options)
		},
	}, true
}

// identity implements identified.
func (r Resource[T]) identity() (server any, scope string, known bool) {
	return r.client, r.client.APIVersion().String() + "/" + r.name + "/" + r.namespace + "?" + r.labels.String() + "&" + r.fields.String(), true
}

// openList returns the items and the metadata of a list object.
func openList[T Object](list runtime.Object) ([]T, metav1.ListMeta, error) {
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, metav1.ListMeta{}, fmt.Errorf("answer to a list: %w", err)
	}
	items, err := itemsOf[T](list)
	return items, metav1.ListMeta{
		ResourceVersion:    accessor.GetResourceVersion(),
		Continue:           accessor.GetContinue(),
		RemainingItemCount: accessor.GetRemainingItemCount(),
	}, err
}
