package looptest

import (
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
)

// object is a pointer to an API type.
type object[T any] interface {
	*T
	runtime.Object
}

// of returns the client of a resource, such as "pods", whose Go type is T.
func of[T any, P object[T]](s *Server, resource string) dynamic.NamespaceableResourceInterface {
	kinds, _, err := scheme.Scheme.ObjectKinds(P(new(T)))
	if err != nil {
		s.t.Fatal(err)
	}
	return s.dynamic.Resource(kinds[0].GroupVersion().WithResource(resource))
}

// All returns the objects of a resource, ordered by their keys.
func All[T any, P object[T]](s *Server, resource string) []*T {
	s.t.Helper()
	list, err := of[T, P](s, resource).List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Errorf("list %s: %v", resource, err)
		return nil
	}
	var all []*T
	for i := range list.Items {
		all = append(all, typed[T](s, &list.Items[i]))
	}
	return all
}

func typed[T any](s *Server, o *unstructured.Unstructured) *T {
	t := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, t); err != nil {
		s.t.Errorf("decode %s: %v", o.GetName(), err)
	}
	return t
}

func untyped(s *Server, from any, like *unstructured.Unstructured) *unstructured.Unstructured {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		s.t.Fatal(err)
	}
	o := &unstructured.Unstructured{Object: m}
	o.SetGroupVersionKind(like.GroupVersionKind())
	return o
}

// Edit changes an object and its status, and retries conflicts. It does nothing if the object does not exist.
func Edit[T any, P object[T]](s *Server, resource, namespace, name string, edit func(*T)) {
	s.t.Helper()
	client := of[T, P](s, resource).Namespace(namespace)
	if namespace == "" {
		client = of[T, P](s, resource)
	}
	for {
		err := change(s, client, name, edit)
		if !apierrors.IsConflict(err) {
			if err != nil && !apierrors.IsNotFound(err) {
				s.t.Errorf("change %s %s: %v", resource, name, err)
			}
			return
		}
	}
}

func change[T any](s *Server, client dynamic.ResourceInterface, name string, edit func(*T)) error {
	ctx := s.t.Context()
	old, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	wanted := typed[T](s, old)
	before := untyped(s, wanted, old)
	edit(wanted)
	now := untyped(s, wanted, old)
	status := now.Object["status"]
	differs := !reflect.DeepEqual(status, before.Object["status"])
	now.Object["status"] = before.Object["status"]
	if !reflect.DeepEqual(now.Object, before.Object) {
		if now, err = client.Update(ctx, now, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	if !differs {
		return nil
	}
	now.Object["status"] = status
	_, err = client.UpdateStatus(ctx, now, metav1.UpdateOptions{})
	return err
}

// Create creates an object with its status.
func Create[T any, P object[T]](s *Server, resource, namespace string, o *T) {
	s.t.Helper()
	kinds, _, err := scheme.Scheme.ObjectKinds(P(o))
	if err != nil {
		s.t.Fatal(err)
	}
	like := &unstructured.Unstructured{}
	like.SetGroupVersionKind(kinds[0])
	client := of[T, P](s, resource).Namespace(namespace)
	if namespace == "" {
		client = of[T, P](s, resource)
	}
	all := untyped(s, o, like)
	status, _ := all.Object["status"].(map[string]any)
	made, err := client.Create(s.t.Context(), all, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatalf("create %s %s: %v", resource, all.GetName(), err)
	}
	if blank := untyped(s, new(T), like); len(status) == 0 || reflect.DeepEqual(blank.Object["status"], all.Object["status"]) {
		return
	}
	for err == nil {
		made.Object["status"] = status
		if _, err = client.UpdateStatus(s.t.Context(), made, metav1.UpdateOptions{}); err == nil {
			return
		}
		if apierrors.IsConflict(err) { // a loop has written meanwhile
			made, err = client.Get(s.t.Context(), made.GetName(), metav1.GetOptions{})
		}
	}
	s.t.Fatalf("set the status of %s %s: %v", resource, all.GetName(), err)
}
