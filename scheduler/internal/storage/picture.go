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

// Key names a claim.
type Key = types.NamespacedName

// Picture is all that is known about storage.
type Picture struct {
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

// known is what the API shows of an object, and what is assumed of it.
type known[T object] struct {
	shown   T
	assumed T
	pending bool // whether assumed counts
}

func (k *known[T]) get() T {
	if k.pending {
		return k.assumed
	}
	return k.shown
}

// show takes in what the API shows. An assumption is over when that is newer than what was assumed.
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

// Newer says whether a resource version is newer than another one.
func Newer(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX != nil || errY != nil || x > y
}

// SetClaim takes in a claim; nil if it has gone.
func (p *Picture) SetClaim(key Key, claim *corev1.PersistentVolumeClaim) {
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

// Claim finds a claim, with what is assumed of it.
func (p *Picture) Claim(key Key) (*corev1.PersistentVolumeClaim, bool) {
	k, ok := p.claims[key]
	if !ok {
		return nil, false
	}
	return k.get(), true
}

// ShownClaim finds a claim as the API shows it.
func (p *Picture) ShownClaim(key Key) (*corev1.PersistentVolumeClaim, bool) {
	k, ok := p.claims[key]
	if !ok {
		return nil, false
	}
	return k.shown, true
}

// AssumeClaim lets a changed claim count until the API shows a newer one.
func (p *Picture) AssumeClaim(claim *corev1.PersistentVolumeClaim) {
	if k, ok := p.claims[Key{Namespace: claim.Namespace, Name: claim.Name}]; ok {
		k.assume(claim)
	}
}

// RestoreClaim takes an assumption back.
func (p *Picture) RestoreClaim(key Key) {
	if k, ok := p.claims[key]; ok {
		k.restore()
	}
}

// SetVolume takes in a volume; nil if it has gone.
func (p *Picture) SetVolume(name string, v *corev1.PersistentVolume) {
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

// list lets a volume be found by its class.
func (p *Picture) list(v *corev1.PersistentVolume) {
	class := volume.GetPersistentVolumeClass(v)
	if p.byClass == nil {
		p.byClass = make(map[string]map[string]struct{})
	}
	if p.byClass[class] == nil {
		p.byClass[class] = make(map[string]struct{})
	}
	p.byClass[class][v.Name] = struct{}{}
}

func (p *Picture) unlist(v *corev1.PersistentVolume) {
	class := volume.GetPersistentVolumeClass(v)
	if delete(p.byClass[class], v.Name); len(p.byClass[class]) == 0 {
		delete(p.byClass, class)
	}
}

// Volume finds a volume, with what is assumed of it.
func (p *Picture) Volume(name string) (*corev1.PersistentVolume, bool) {
	k, ok := p.volumes[name]
	if !ok {
		return nil, false
	}
	return k.get(), true
}

// ShownVolume finds a volume as the API shows it.
func (p *Picture) ShownVolume(name string) (*corev1.PersistentVolume, bool) {
	k, ok := p.volumes[name]
	if !ok {
		return nil, false
	}
	return k.shown, true
}

// VolumesOf lists the volumes of a class, by name.
func (p *Picture) VolumesOf(class string) []*corev1.PersistentVolume {
	names := slices.Sorted(maps.Keys(p.byClass[class]))
	list := make([]*corev1.PersistentVolume, len(names))
	for i, name := range names {
		list[i] = p.volumes[name].get()
	}
	return list
}

// HasVolumes says whether a class has volumes.
func (p *Picture) HasVolumes(class string) bool { return len(p.byClass[class]) > 0 }

// AssumeVolume lets a changed volume count until the API shows a newer one.
func (p *Picture) AssumeVolume(v *corev1.PersistentVolume) {
	if k, ok := p.volumes[v.Name]; ok {
		k.assume(v)
	}
}

// RestoreVolume takes an assumption back.
func (p *Picture) RestoreVolume(name string) {
	if k, ok := p.volumes[name]; ok {
		k.restore()
	}
}
