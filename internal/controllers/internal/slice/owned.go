package slice

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

// Owned finds the slices that one loop manages.
type Owned struct {
	cache     *informer.Shared[*discoveryv1.EndpointSlice]
	managedBy string
}

// byManager finds slices by their manager and Service.
var byManager = informer.NewIndex(func(slice *discoveryv1.EndpointSlice) []string {
	of := slice.Labels[discoveryv1.LabelServiceName]
	if of == "" {
		return nil
	}
	return []string{managed(slice.Labels[discoveryv1.LabelManagedBy], loop.Key{Namespace: slice.Namespace, Name: of})}
})

func managed(by string, of loop.Key) string { return by + " " + of.String() }

// Index adds the index for slices with this managed-by label to a cache.
func Index(cache *informer.Shared[*discoveryv1.EndpointSlice], managedBy string) Owned {
	cache.AddIndex(byManager)
	return Owned{cache, managedBy}
}

// Keys returns the Service of a slice, or nothing if another loop manages the slice.
func (o Owned) Keys(slice *discoveryv1.EndpointSlice) []loop.Key {
	of := slice.Labels[discoveryv1.LabelServiceName]
	if of == "" || slice.Labels[discoveryv1.LabelManagedBy] != o.managedBy {
		return nil
	}
	return []loop.Key{{Namespace: slice.Namespace, Name: of}}
}

// Of returns the slices of a Service, or of the Endpoints of this name.
func (o Owned) Of(key loop.Key) []*discoveryv1.EndpointSlice {
	return slices.Collect(o.cache.By(byManager, managed(o.managedBy, key)))
}
