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

// Index makes a cache find the slices whose label says that managedBy manages them.
func Index(cache *informer.Shared[*discoveryv1.EndpointSlice], managedBy string) Owned {
	o := Owned{cache, managedBy}
	_ = cache.AddIndex(managedBy, func(slice *discoveryv1.EndpointSlice) (keys []string) { // unless it is there already
		for _, key := range o.Keys(slice) {
			keys = append(keys, key.String())
		}
		return keys
	})
	return o
}

// Keys names what a slice is of: nothing if another one manages it.
func (o Owned) Keys(slice *discoveryv1.EndpointSlice) []loop.Key {
	of := slice.Labels[discoveryv1.LabelServiceName]
	if of == "" || slice.Labels[discoveryv1.LabelManagedBy] != o.managedBy {
		return nil
	}
	return []loop.Key{{Namespace: slice.Namespace, Name: of}}
}

// Of returns the slices of a service, or of the Endpoints of its name.
func (o Owned) Of(key loop.Key) []*discoveryv1.EndpointSlice {
	return slices.Collect(o.cache.By(o.managedBy, key.String()))
}
