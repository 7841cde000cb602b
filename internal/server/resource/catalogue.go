package resource

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Catalogue is the set of kinds that are served. It may change while it is in use, except for the kinds that it was
// made with, which are the built-in ones: no exchange replaces or withdraws one of these, or takes one of their names.
type Catalogue struct {
	builtIn map[string]Names // by group

	mu      sync.RWMutex // guards everything below
	kinds   map[schema.GroupResource][]*Kind
	faces   map[schema.GroupVersionResource]*Face
	sorted  []*Kind // nil: to be made when it is asked for
	version int
	changed chan struct{} // closed at the next change; nil while no caller waits for it
}

// Names are the names in use in a group.
type Names struct {
	// Resources are the names by which clients find a resource: in plural, in singular, and short.
	Resources []string
	// Kinds are the names of kinds and of their lists.
	Kinds []string
}

// NewCatalogue makes a catalogue of built-in kinds. No two kinds may be served at the same group, version and resource.
func NewCatalogue(kinds ...*Kind) (*Catalogue, error) {
	c := &Catalogue{kinds: map[schema.GroupResource][]*Kind{}, faces: map[schema.GroupVersionResource]*Face{}}
	for _, k := range kinds {
		if _, taken := c.kinds[k.GroupResource()]; taken {
			return nil, fmt.Errorf("kind %v is in the catalogue already", k.GroupResource())
		}
		if err := c.Exchange(k.GroupResource(), k); err != nil {
			return nil, err
		}
	}
	c.builtIn = namesOf(kinds)
	return c, nil
}

// namesOf returns the names of kinds by group. Versions that are turned off count: they may be turned on at the next
// start.
func namesOf(kinds []*Kind) map[string]Names {
	all := map[string]Names{}
	for _, k := range kinds {
		for _, f := range k.Faces {
			n := all[f.Group]
			n.Resources = append(append(n.Resources, f.Resource, k.Singular), k.ShortNames...)
			n.Kinds = append(n.Kinds, f.Kind, f.ListKind)
			all[f.Group] = n
		}
	}
	return all
}

// BuiltIn returns the names that built-in kinds have in a group. All callers share the slices.
func (c *Catalogue) BuiltIn(group string) Names { return c.builtIn[group] }

// Exchange replaces, in one step, the kinds that are served for a group and resource. They share an Identity; without
// kinds the resource is no longer served. If it fails, nothing changes. Lives that none of the new kinds shares end.
func (c *Catalogue) Exchange(r schema.GroupResource, kinds ...*Kind) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkLocked(r, kinds); err != nil {
		return err
	}
	old := c.kinds[r]
	for _, k := range old {
		for _, f := range k.Served() {
			delete(c.faces, f.GroupVersionResource())
		}
	}
	for _, k := range kinds {
		for _, f := range k.Served() {
			c.faces[f.GroupVersionResource()] = f
		}
	}
	c.kinds[r] = kinds
	if len(kinds) == 0 {
		delete(c.kinds, r)
	}
	c.sorted = nil
	c.version++
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
	endLives(old, kinds)
	return nil
}

// Check tells why an exchange would fail.
func (c *Catalogue) Check(r schema.GroupResource, kinds ...*Kind) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.checkLocked(r, kinds)
}

func (c *Catalogue) checkLocked(r schema.GroupResource, kinds []*Kind) error {
	if slices.Contains(c.builtIn[r.Group].Resources, r.Resource) {
		return fmt.Errorf("%v is built in", r)
	}
	old := c.kinds[r]
	for _, k := range kinds {
		if k.GroupResource() != r || k.Identity != kinds[0].Identity {
			return fmt.Errorf("kind %v of version %s cannot be served as %v", k.GroupResource(), k.Version, r)
		}
		for _, f := range k.Served() {
			if taken := c.faces[f.GroupVersionResource()]; taken != nil && !slices.Contains(old, taken.Of) {
				return fmt.Errorf("%v is in the catalogue already", f.GroupVersionResource())
			}
			if names := c.builtIn[f.Group].Kinds; slices.Contains(names, f.Kind) || slices.Contains(names, f.ListKind) {
				return fmt.Errorf("kind %s or %s of group %s is built in", f.Kind, f.ListKind, f.Group)
			}
		}
	}
	return nil
}

// endLives ends the lives of the old kinds that none of the new ones shares.
func endLives(old, now []*Kind) {
	goOn := map[*Life]bool{nil: true}
	for _, k := range now {
		for _, l := range k.lives() {
			goOn[l] = true
		}
	}
	for _, k := range old {
		for _, l := range k.lives() {
			if !goOn[l] {
				l.end()
			}
		}
	}
}

// lives are the kind's, and those of its fields.
func (k *Kind) lives() []*Life { return append(slices.Collect(maps.Values(k.FieldLives)), k.Life) }

// Face returns the face at a group, version and resource.
func (c *Catalogue) Face(r schema.GroupVersionResource) (*Face, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	f, ok := c.faces[r]
	return f, ok
}

// Kind returns the kind that is stored under a group and resource; of several versions, the first.
func (c *Catalogue) Kind(r schema.GroupResource) (*Kind, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if all := c.kinds[r]; len(all) > 0 {
		return all[0], true
	}
	return nil, false
}

// Kinds returns the kinds, sorted by group and resource. All callers share the slice.
func (c *Catalogue) Kinds() []*Kind {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sorted == nil {
		for _, versions := range c.kinds {
			c.sorted = append(c.sorted, versions...)
		}
		slices.SortStableFunc(c.sorted, func(a, b *Kind) int {
			return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Resource, b.Resource))
		})
	}
	return c.sorted
}

// Version increases with each change, so that what is derived from the catalogue can be cached until then.
func (c *Catalogue) Version() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.version
}

// Changed returns a channel that is closed at the next change.
func (c *Catalogue) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

// GroupVersionResource returns where the face is served.
func (f *Face) GroupVersionResource() schema.GroupVersionResource {
	return f.GroupVersion().WithResource(f.Resource)
}
