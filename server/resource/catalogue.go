package resource

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Catalogue is the set of kinds that are served. It may grow and shrink while it is in use.
type Catalogue struct {
	mu      sync.RWMutex // guards what follows
	kinds   map[schema.GroupResource]*Kind
	faces   map[schema.GroupVersionResource]*Face
	version int
}

// NewCatalogue makes a catalogue of some kinds.
func NewCatalogue(kinds ...*Kind) (*Catalogue, error) {
	c := &Catalogue{kinds: map[schema.GroupResource]*Kind{}, faces: map[schema.GroupVersionResource]*Face{}}
	for _, k := range kinds {
		if err := c.Add(k); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Add starts serving a kind under all its faces. A kind that is there already is an error.
func (c *Catalogue) Add(k *Kind) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.kinds[k.GroupResource()]; taken {
		return fmt.Errorf("kind %v is in the catalogue already", k.GroupResource())
	}
	for _, f := range k.Faces {
		if _, taken := c.faces[f.GroupVersionResource()]; taken {
			return fmt.Errorf("%v is in the catalogue already", f.GroupVersionResource())
		}
	}
	c.kinds[k.GroupResource()] = k
	for _, f := range k.Faces {
		c.faces[f.GroupVersionResource()] = f
	}
	c.version++
	return nil
}

// Remove stops serving a kind.
func (c *Catalogue) Remove(k *Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kinds[k.GroupResource()] != k {
		return
	}
	delete(c.kinds, k.GroupResource())
	for _, f := range k.Faces {
		delete(c.faces, f.GroupVersionResource())
	}
	c.version++
}

// Face finds what is served at a group, version and resource.
func (c *Catalogue) Face(r schema.GroupVersionResource) (*Face, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	f, ok := c.faces[r]
	return f, ok
}

// Kind finds the kind that is stored under a group and resource.
func (c *Catalogue) Kind(r schema.GroupResource) (*Kind, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	k, ok := c.kinds[r]
	return k, ok
}

// Kinds lists the kinds by group and resource.
func (c *Catalogue) Kinds() []*Kind {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.SortedFunc(maps.Values(c.kinds), func(a, b *Kind) int {
		return strings.Compare(a.Group+"/"+a.Resource, b.Group+"/"+b.Resource)
	})
}

// Version grows with each change, so that what is derived from the catalogue can be kept until then.
func (c *Catalogue) Version() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.version
}

// GroupVersionResource is where a face is served.
func (f *Face) GroupVersionResource() schema.GroupVersionResource {
	return f.GroupVersion().WithResource(f.Resource)
}
