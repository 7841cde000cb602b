package informer

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// lister is a source that can tell which resource it lists.
type lister interface {
	listed() schema.GroupResource
}

// resourceListed returns what a source lists, such as replicasets.apps; nothing if it does not tell.
func resourceListed(source any) string {
	if l, ok := source.(lister); ok {
		return l.listed().String()
	}
	return ""
}

func (s *typedSource[T, L]) listed() schema.GroupResource {
	switch client := s.client.(type) {
	case interface{ GetClient() rest.Interface }:
		return schema.GroupResource{Group: client.GetClient().APIVersion().Group, Resource: resourceOf(s.client)}
	case interface {
		Resource() schema.GroupVersionResource
	}: // one of client-go's fakes
		return client.Resource().GroupResource()
	}
	return s.resource
}

func (r Resource[T]) listed() schema.GroupResource {
	return schema.GroupResource{Group: r.client.APIVersion().Group, Resource: r.name}
}

func (s *namespaced[T]) listed() (resource schema.GroupResource) {
	for _, p := range s.parts {
		if l, ok := p.source.(lister); ok {
			resource = l.listed()
		}
	}
	return resource
}
