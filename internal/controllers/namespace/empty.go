package namespace

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/millrace/millrace/internal/controllers/internal/kinds"
)

// abreast is the number of kinds that are deleted in parallel.
const abreast = 8

// empty deletes the objects in a namespace, and reports what it has found.
func (n *controller) empty(ctx context.Context, namespace string) *round {
	r := &round{remaining: map[schema.GroupResource]int{}, finalizers: map[string]int{}}
	catalogue, err := kinds.Discover(n.discovery)
	if err != nil {
		r.discovery = err
		return r
	}
	if err := catalogue.Failure(); err != nil {
		r.discovery = fmt.Errorf("%d failing: %w", len(catalogue.Failed), err)
	}
	var pods, others []*kinds.Kind
	for _, kind := range catalogue.Kinds {
		switch {
		case !kind.Namespaced || !kind.Can("delete", "list"):
		case kind.Resource.Group == "" && kind.Resource.Resource == "pods":
			pods = append(pods, kind)
		default:
			others = append(others, kind)
		}
	}
	n.emptyKinds(ctx, namespace, pods, r)
	if len(r.remaining) == 0 && len(r.failures) == 0 {
		n.emptyKinds(ctx, namespace, others, r)
	}
	return r
}

func (n *controller) emptyKinds(ctx context.Context, namespace string, of []*kinds.Kind, r *round) {
	var mu sync.Mutex // guards r
	var all sync.WaitGroup
	room := make(chan struct{}, abreast)
	for _, kind := range of {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			left, err := n.emptyKind(ctx, namespace, kind)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				r.failures = append(r.failures, err)
			}
			if len(left) > 0 {
				r.remaining[kind.Resource.GroupResource()] = len(left)
			}
			for _, o := range left {
				for _, finalizer := range o.Finalizers {
					r.finalizers[finalizer]++
				}
			}
		})
	}
	all.Wait()
}

// emptyKind deletes all objects of a kind, and returns those that are left.
func (n *controller) emptyKind(ctx context.Context, namespace string, kind *kinds.Kind) ([]metav1.PartialObjectMetadata, error) {
	objects := n.metadata.Resource(kind.Resource).Namespace(namespace)
	found, err := list(ctx, objects, kind)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	if err := remove(ctx, objects, kind, found); err != nil {
		return found, fmt.Errorf("delete %s: %w", kind.Resource.GroupResource(), err)
	}
	return list(ctx, objects, kind)
}

func list(ctx context.Context, objects metadata.ResourceInterface, kind *kinds.Kind) ([]metav1.PartialObjectMetadata, error) {
	answer, err := objects.List(ctx, metav1.ListOptions{})
	if vanished(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", kind.Resource.GroupResource(), err)
	}
	return answer.Items, nil
}

func remove(ctx context.Context, objects metadata.ResourceInterface, kind *kinds.Kind, found []metav1.PartialObjectMetadata) error {
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	if kind.Can("deletecollection") {
		err := objects.DeleteCollection(ctx, options, metav1.ListOptions{})
		if !apierrors.IsMethodNotSupported(err) {
			return ignoreVanished(err)
		}
	}
	for _, o := range found {
		if o.DeletionTimestamp != nil {
			continue
		}
		if err := ignoreVanished(objects.Delete(ctx, o.Name, options)); err != nil {
			return err
		}
	}
	return nil
}

// vanished reports whether the object, or the whole kind, is gone or cannot be listed.
func vanished(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

func ignoreVanished(err error) error {
	if vanished(err) {
		return nil
	}
	return err
}
