package devices

import (
	"iter"
	"maps"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/millrace/millrace/internal/scheduler/internal/storage"
)

// Key is the namespace and name of a claim.
type Key = types.NamespacedName

// State is the state of all claims, slices and classes.
type State struct {
	claims  map[Key]*claim
	classes map[string]*resourcev1.DeviceClass
	slices  map[string]*resourcev1.ResourceSlice
	byNode  map[string]map[string]*resourcev1.ResourceSlice // slices of single nodes
	shared  map[string]*resourcev1.ResourceSlice            // slices of several nodes
	taken   structured.AllocatedState
	changes uint64 // of slices

	named    map[corev1.ResourceName]*resourcev1.DeviceClass // by the extended resource that a class names
	special  map[types.UID][]Key                             // claims for extended resources, by the pod that they are for
	promises map[types.UID]*resourcev1.ResourceClaim         // claims that do not exist yet
	matches  matches
}

// claim is a claim in the API, and the assumed one. One of them may be nil.
type claim struct {
	shown, assumed *resourcev1.ResourceClaim
	written        bool // the assumed claim has been written and has its resource version
}

// forget drops the assumed claim once the API shows it or a newer one. Before it is written the API may show other
// changes, such as a finalizer: these must not make the devices seem free.
func (c *claim) forget() {
	switch {
	case c.assumed == nil || c.shown == nil:
	case c.assumed.UID != c.shown.UID, c.written && !storage.Newer(c.assumed.ResourceVersion, c.shown.ResourceVersion):
		c.assumed, c.written = nil, false
	}
}

func (c *claim) get() *resourcev1.ResourceClaim {
	if c.assumed != nil {
		return c.assumed
	}
	return c.shown
}

// SetClaim sets a claim from the API; nil if it was deleted.
func (s *State) SetClaim(key Key, object *resourcev1.ResourceClaim) {
	c, ok := s.claims[key]
	if ok {
		s.count(c.get(), false)
		s.setSpecial(key, c.shown, false)
	}
	s.setSpecial(key, object, true)
	if object == nil {
		delete(s.claims, key)
		return
	}
	if !ok {
		if s.claims == nil {
			s.claims = make(map[Key]*claim)
		}
		c = &claim{}
		s.claims[key] = c
	}
	c.shown = object
	c.forget()
	s.count(c.get(), true)
}

// Claim returns a claim: the assumed one if there is one.
func (s *State) Claim(key Key) (*resourcev1.ResourceClaim, bool) {
	c, ok := s.claims[key]
	if !ok {
		return nil, false
	}
	return c.get(), true
}

// Assumed reports whether a claim is assumed.
func (s *State) Assumed(key Key) bool {
	c, ok := s.claims[key]
	return ok && c.assumed != nil
}

// Assume lets a changed claim count until it has been written and the API shows it, or until Restore.
func (s *State) Assume(object *resourcev1.ResourceClaim) {
	if c, ok := s.claims[Key{Namespace: object.Namespace, Name: object.Name}]; ok {
		s.count(c.get(), false)
		c.assumed, c.written = object, false
		s.count(object, true)
	}
}

// Written records that the assumed claim has been written, with the API's answer.
func (s *State) Written(object *resourcev1.ResourceClaim) {
	c, ok := s.claims[Key{Namespace: object.Namespace, Name: object.Name}]
	if !ok || c.assumed == nil || c.assumed.UID != object.UID {
		return
	}
	s.count(c.get(), false)
	c.assumed, c.written = object, true
	c.forget()
	s.count(c.get(), true)
}

// Restore undoes an assumption.
func (s *State) Restore(key Key) {
	c, ok := s.claims[key]
	if !ok || c.assumed == nil {
		return
	}
	s.count(c.assumed, false)
	if c.shown == nil {
		delete(s.claims, key)
		return
	}
	c.assumed, c.written = nil, false
	s.count(c.shown, true)
}

// count adds or removes the devices of a claim. Devices with admin access are not exclusive and do not count.
func (s *State) count(object *resourcev1.ResourceClaim, has bool) {
	if object.Status.Allocation == nil {
		return
	}
	if s.taken.AllocatedDevices == nil {
		s.taken = structured.AllocatedState{
			AllocatedDevices:         sets.New[structured.DeviceID](),
			AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
			AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
		}
	}
	for i := range object.Status.Allocation.Devices.Results {
		r := &object.Status.Allocation.Devices.Results[i]
		if r.AdminAccess != nil && *r.AdminAccess {
			continue
		}
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		if r.ShareID == nil {
			toggle(s.taken.AllocatedDevices, id, has)
			continue
		}
		toggle(s.taken.AllocatedSharedDeviceIDs, structured.MakeSharedDeviceID(id, r.ShareID), has)
		consumed := structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity)
		if has {
			s.taken.AggregatedCapacity.Insert(consumed)
		} else {
			s.taken.AggregatedCapacity.Remove(consumed)
		}
	}
}

func toggle[T comparable](set sets.Set[T], element T, in bool) {
	if in {
		set.Insert(element)
	} else {
		set.Delete(element)
	}
}

// Taken returns the allocated devices.
func (s *State) Taken() structured.AllocatedState {
	if s.taken.AllocatedDevices == nil {
		return structured.AllocatedState{
			AllocatedDevices:         sets.New[structured.DeviceID](),
			AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
			AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
		}
	}
	return s.taken
}

// SetSlice sets a resource slice; nil if it was deleted.
func (s *State) SetSlice(name string, slice *resourcev1.ResourceSlice) {
	s.changes++
	if old, ok := s.slices[name]; ok {
		s.matches.forgetSlice(old)
		delete(s.shared, name)
		if old.Spec.NodeName != nil {
			node := *old.Spec.NodeName
			if delete(s.byNode[node], name); len(s.byNode[node]) == 0 {
				delete(s.byNode, node)
			}
		}
		delete(s.slices, name)
	}
	if slice == nil {
		return
	}
	set(&s.slices, name, slice)
	if slice.Spec.NodeName == nil {
		set(&s.shared, name, slice)
		return
	}
	at := s.byNode[*slice.Spec.NodeName]
	set(&at, name, slice)
	set(&s.byNode, *slice.Spec.NodeName, at)
}

// Slices returns all resource slices.
func (s *State) Slices() iter.Seq[*resourcev1.ResourceSlice] { return maps.Values(s.slices) }

// SliceChanges returns how often resource slices have changed.
func (s *State) SliceChanges() uint64 { return s.changes }

// SlicesFor returns the resource slices that a node may be able to use.
func (s *State) SlicesFor(node string) []*resourcev1.ResourceSlice {
	list := make([]*resourcev1.ResourceSlice, 0, len(s.byNode[node])+len(s.shared))
	for slice := range both(maps.Values(s.byNode[node]), maps.Values(s.shared)) {
		list = append(list, slice)
	}
	return list
}

func both[T any](first, second iter.Seq[T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range first {
			if !yield(v) {
				return
			}
		}
		second(yield)
	}
}

func set[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[key] = value
}

// List returns the classes, for the allocator.
func (s *State) List() ([]*resourcev1.DeviceClass, error) {
	var list []*resourcev1.DeviceClass
	for class := range maps.Values(s.classes) {
		list = append(list, class)
	}
	return list, nil
}

// Get returns a class, for the allocator.
func (s *State) Get(name string) (*resourcev1.DeviceClass, error) {
	if class, ok := s.classes[name]; ok {
		return class, nil
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("deviceclass"), name)
}
