package follow

import (
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/store"
)

// kinds are the storages of some kinds, which are looked up when they are first needed. Any goroutine may use it.
type kinds struct {
	registry *registry.Registry
	of       []schema.GroupResource
	found    atomic.Pointer[[]*registry.Storage]
}

func (k *kinds) storages() ([]*registry.Storage, error) {
	if found := k.found.Load(); found != nil {
		return *found, nil
	}
	var all []*registry.Storage
	for _, of := range k.of {
		kind, ok := k.registry.Catalogue.Kind(of)
		if !ok {
			return nil, fmt.Errorf("%v are not served", of)
		}
		s, err := k.registry.Storage(kind)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	k.found.Store(&all)
	return all, nil
}

// wrote is the revision of the last object of these kinds that this server has changed.
func (k *kinds) wrote() (last store.Revision, err error) {
	all, err := k.storages()
	for _, s := range all {
		last = max(last, s.Wrote())
	}
	return last, err
}
