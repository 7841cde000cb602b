package storage

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
)

// Key is the namespace and name of a claim.
type Key = types.NamespacedName

// State is the state of all objects about storage.
type State struct {
	claims      map[Key]*known[*corev1.PersistentVolumeClaim]
	volumes     map[string]*known[*corev1.PersistentVolume]
	byClass     map[string]map[string]struct{} // names of volumes
	classes     map[string]*storagev1.StorageClass
	nodes       map[string]*storagev1.CSINode
	drivers     map[string]*storagev1.CSIDriver
	capacities  map[string]map[Key]*storagev1.CSIStorageCapacity  // by class
	attachments map[string]map[string]*storagev1.VolumeAttachment // by node
	attachedTo  map[string]string                                 // the node of each attachment
}

type object interface {
	comparable
	GetResourceVersion() string
}

// known is an object in the API, and the assumed one.
type known[T object] struct {
	shown   T
	assumed T
	pending bool // assumed counts
}

func (k *known[T]) get() T {
	if k.pending {
		return k.assumed
	}
	return k.shown
}

// show sets the object in the API. An assumption ends when that is newer.
func (k *known[T]) show(object T) {
	k.shown = object
	if k.pending && Newer(object.GetResourceVersion(), k.assumed.GetResourceVersion()) {
		k.restore()
	}
}

func (k *known[T]) assume(object T) { k.assumed, k.pending = object, true }

func (k *known[T]) restore() {
	var none T
	k.assumed, k.pending = none, false
}

// Newer reports whether a resource version is newer than another.
func Newer(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX != nil || errY != nil || x > y
}

// SetClaim sets a claim; nil if it was deleted.
func (p *State) SetClaim(key Key, claim *corev1.PersistentVolumeClaim) {
	if claim == nil {
		delete(p.claims, key)
		return
	}
	if k, ok := p.claims[key]; ok {
		k.show(claim)
		return
	}
	if p.claims == nil {
		p.claims = make(map[Key]*known[*corev1.PersistentVolumeClaim])
	}
	p.claims[key] = &known[*corev1.PersistentVolumeClaim]{shown: claim}
}

// Claim returns a claim: the assumed one if there is one.
func (p *State) Claim(key Key) (*corev1.PersistentVolumeClaim, bool) {
	k, ok := p.claims[key]
	if !ok {
		return nil, false
	}
	return k.get(), true
}

// ShownClaim returns a claim as it is in the API.
func (p *State) ShownClaim(key Key) (*corev1.PersistentVolumeClaim, bool) {
	k, ok := p.claims[key]
	if !ok {
		return nil, false
	}
	return k.shown, true
}

// AssumeClaim lets a changed claim count until the API shows a newer one.
func (p *State) AssumeClaim(claim *corev1.PersistentVolumeClaim) {
	if k, ok := p.claims[Key{Namespace: claim.Namespace, Name: claim.Name}]; ok {
		k.assume(claim)
	}
}

// RestoreClaim undoes an assumption.
func (p *State) RestoreClaim(key Key) {
	if k, ok := p.claims[key]; ok {
		k.restore()
	}
}

// SetVolume sets a volume; nil if it was deleted.
func (p *State) SetVolume(name string, v *corev1.PersistentVolume) {
	k, ok := p.volumes[name]
	if ok {
		p.unlist(k.shown)
	}
	if v == nil {
		delete(p.volumes, name)
		return
	}
	p.list(v)
	if ok {
		k.show(v)
		return
	}
	if p.volumes == nil {
		p.volumes = make(map[string]*known[*corev1.PersistentVolume])
	}
	p.volumes[name] = &known[*corev1.PersistentVolume]{shown: v}
}

// list adds a volume to its class.
func (p *State) list(v *corev1.PersistentVolume) {
	class := volume.GetPersistentVolumeClass(v)
	if p.byClass == nil {
		p.byClass = make(map[string]map[string]struct{})
	}
	if p.byClass[class] == nil {
		p.byClass[class] = make(map[string]struct{})
	}
	p.byClass[class][v.Name] = struct{}{}
}

func (p *State) unlist(v *corev1.PersistentVolume) {
	class := volume.GetPersistentVolumeClass(v)
	if delete(p.byClass[class], v.Name); len(p.byClass[class]) == 0 {
		delete(p.byClass, class)
	}
}

// Volume returns a volume: the assumed one if there is one.
func (p *State) Volume(name string) (*corev1.PersistentVolume, bool) {
	k, ok := p.volumes[name]
	if !ok {
		return nil, false
	}
	return k.get(), true
}

// ShownVolume returns a volume as it is in the API.
func (p *State) ShownVolume(name string) (*corev1.PersistentVolume, bool) {
	k, ok := p.volumes[name]
	if !ok {
		return nil, false
	}
	return k.shown, true
}

// VolumesOf returns the volumes of a class, sorted by name.
func (p *State) VolumesOf(class string) []*corev1.PersistentVolume {
	names := slices.Sorted(maps.Keys(p.byClass[class]))
	list := make([]*corev1.PersistentVolume, len(names))
	for i, name := range names {
		list[i] = p.volumes[name].get()
	}
	return list
}

// HasVolumes reports whether a class has volumes.
func (p *State) HasVolumes(class string) bool { return len(p.byClass[class]) > 0 }

// AssumeVolume lets a changed volume count until the API shows a newer one.
func (p *State) AssumeVolume(v *corev1.PersistentVolume) {
	if k, ok := p.volumes[v.Name]; ok {
		k.assume(v)
	}
}

// RestoreVolume undoes an assumption.
func (p *State) RestoreVolume(name string) {
	if k, ok := p.volumes[name]; ok {
		k.restore()
	}
}
