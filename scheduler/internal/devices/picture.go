package devices

import (
	"iter"
	"maps"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/millrace/millrace/scheduler/internal/storage"
)

// Key names a claim.
type Key = types.NamespacedName

// Picture is all that is known about devices.
type Picture struct {
	claims  map[Key]*claim
	classes map[string]*resourcev1.DeviceClass
	slices  map[string]*resourcev1.ResourceSlice
	byNode  map[string]map[string]*resourcev1.ResourceSlice // of single nodes
	shared  map[string]*resourcev1.ResourceSlice            // of several nodes
	taken   structured.AllocatedState
}

// claim is what the API shows of a claim, and what is assumed of it; nil if nothing is.
type claim struct {
	shown, assumed *resourcev1.ResourceClaim
	written        bool // what is assumed has been written, with its resource version
}

// forget drops what is assumed once the API shows it, or what came after it. Until it has been written the API may show other changes, such as a
// finalizer: the devices would seem to be free.
func (c *claim) forget() {
	switch {
	case c.assumed == nil:
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

// SetClaim takes in a claim; nil if it has gone.
func (p *Picture) SetClaim(key Key, object *resourcev1.ResourceClaim) {
	c, ok := p.claims[key]
	if ok {
		p.count(c.get(), false)
	}
	if object == nil {
		delete(p.claims, key)
		return
	}
	if !ok {
		if p.claims == nil {
			p.claims = make(map[Key]*claim)
		}
		c = &claim{}
		p.claims[key] = c
	}
	c.shown = object
	c.forget()
	p.count(c.get(), true)
}

// Claim finds a claim, with what is assumed of it.
func (p *Picture) Claim(key Key) (*resourcev1.ResourceClaim, bool) {
	c, ok := p.claims[key]
	if !ok {
		return nil, false
	}
	return c.get(), true
}

// Assumed says whether something is assumed of a claim.
func (p *Picture) Assumed(key Key) bool {
	c, ok := p.claims[key]
	return ok && c.assumed != nil
}

// Assume lets a changed claim count until it has been written and the API shows it, or until Restore.
func (p *Picture) Assume(object *resourcev1.ResourceClaim) {
	if c, ok := p.claims[Key{Namespace: object.Namespace, Name: object.Name}]; ok {
		p.count(c.get(), false)
		c.assumed, c.written = object, false
		p.count(object, true)
	}
}

// Written says that what is assumed has been written, and how the API answered.
func (p *Picture) Written(object *resourcev1.ResourceClaim) {
	c, ok := p.claims[Key{Namespace: object.Namespace, Name: object.Name}]
	if !ok || c.assumed == nil || c.assumed.UID != object.UID {
		return
	}
	p.count(c.get(), false)
	c.assumed, c.written = object, true
	c.forget()
	p.count(c.get(), true)
}

// Restore takes an assumption back.
func (p *Picture) Restore(key Key) {
	if c, ok := p.claims[key]; ok && c.assumed != nil {
		p.count(c.assumed, false)
		c.assumed, c.written = nil, false
		p.count(c.shown, true)
	}
}

// count notes the devices that a claim has, or has no more. Administrators' access takes nothing from anybody.
func (p *Picture) count(object *resourcev1.ResourceClaim, has bool) {
	if object.Status.Allocation == nil {
		return
	}
	if p.taken.AllocatedDevices == nil {
		p.taken = structured.AllocatedState{
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
			toggle(p.taken.AllocatedDevices, id, has)
			continue
		}
		toggle(p.taken.AllocatedSharedDeviceIDs, structured.MakeSharedDeviceID(id, r.ShareID), has)
		consumed := structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity)
		if has {
			p.taken.AggregatedCapacity.Insert(consumed)
		} else {
			p.taken.AggregatedCapacity.Remove(consumed)
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

// Taken is which devices claims have.
func (p *Picture) Taken() structured.AllocatedState {
	if p.taken.AllocatedDevices == nil {
		return structured.AllocatedState{
			AllocatedDevices:         sets.New[structured.DeviceID](),
			AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
			AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
		}
	}
	return p.taken
}

// SetSlice takes in what a driver publishes; nil if that has gone.
func (p *Picture) SetSlice(name string, slice *resourcev1.ResourceSlice) {
	if old, ok := p.slices[name]; ok {
		delete(p.shared, name)
		if old.Spec.NodeName != nil {
			node := *old.Spec.NodeName
			if delete(p.byNode[node], name); len(p.byNode[node]) == 0 {
				delete(p.byNode, node)
			}
		}
		delete(p.slices, name)
	}
	if slice == nil {
		return
	}
	set(&p.slices, name, slice)
	if slice.Spec.NodeName == nil {
		set(&p.shared, name, slice)
		return
	}
	at := p.byNode[*slice.Spec.NodeName]
	set(&at, name, slice)
	set(&p.byNode, *slice.Spec.NodeName, at)
}

// SlicesFor lists what drivers publish that a node may be able to use.
func (p *Picture) SlicesFor(node string) []*resourcev1.ResourceSlice {
	list := make([]*resourcev1.ResourceSlice, 0, len(p.byNode[node])+len(p.shared))
	for slice := range both(maps.Values(p.byNode[node]), maps.Values(p.shared)) {
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

// SetClass takes in a class; nil if it has gone.
func (p *Picture) SetClass(name string, class *resourcev1.DeviceClass) {
	if class == nil {
		delete(p.classes, name)
		return
	}
	set(&p.classes, name, class)
}

func set[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[key] = value
}

// List lists the classes, for the allocator.
func (p *Picture) List() ([]*resourcev1.DeviceClass, error) {
	var list []*resourcev1.DeviceClass
	for class := range maps.Values(p.classes) {
		list = append(list, class)
	}
	return list, nil
}

// Get finds a class, for the allocator.
func (p *Picture) Get(name string) (*resourcev1.DeviceClass, error) {
	if class, ok := p.classes[name]; ok {
		return class, nil
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("deviceclass"), name)
}
