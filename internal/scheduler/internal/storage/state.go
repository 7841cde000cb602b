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
func (s *State) SetClaim(key Key, claim *corev1.PersistentVolumeClaim) {
	if claim == nil {
		delete(s.claims, key)
		return
	}
	if k, ok := s.claims[key]; ok {
		k.show(claim)
		return
	}
	if s.claims == nil {
		s.claims = make(map[Key]*known[*corev1.PersistentVolumeClaim])
	}
	s.claims[key] = &known[*corev1.PersistentVolumeClaim]{shown: claim}
}

// Claim returns a claim: the assumed one if there is one.
func (s *State) Claim(key Key) (*corev1.PersistentVolumeClaim, bool) {
	k, ok := s.claims[key]
	if !ok {
		return nil, false
	}
	return k.get(), true
}

// ShownClaim returns a claim as it is in the API.
func (s *State) ShownClaim(key Key) (*corev1.PersistentVolumeClaim, bool) {
	k, ok := s.claims[key]
	if !ok {
		return nil, false
	}
	return k.shown, true
}

// AssumeClaim lets a changed claim count until the API shows a newer one.
func (s *State) AssumeClaim(claim *corev1.PersistentVolumeClaim) {
	if k, ok := s.claims[Key{Namespace: claim.Namespace, Name: claim.Name}]; ok {
		k.assume(claim)
	}
}

// RestoreClaim undoes an assumption.
func (s *State) RestoreClaim(key Key) {
	if k, ok := s.claims[key]; ok {
		k.restore()
	}
}

// SetVolume sets a volume; nil if it was deleted.
func (s *State) SetVolume(name string, v *corev1.PersistentVolume) {
	k, ok := s.volumes[name]
	if ok {
		s.unlist(k.shown)
	}
	if v == nil {
		delete(s.volumes, name)
		return
	}
	s.list(v)
	if ok {
		k.show(v)
		return
	}
	if s.volumes == nil {
		s.volumes = make(map[string]*known[*corev1.PersistentVolume])
	}
	s.volumes[name] = &known[*corev1.PersistentVolume]{shown: v}
}

// list adds a volume to its class.
func (s *State) list(v *corev1.PersistentVolume) {
	class := volume.GetPersistentVolumeClass(v)
	if s.byClass == nil {
		s.byClass = make(map[string]map[string]struct{})
	}
	if s.byClass[class] == nil {
		s.byClass[class] = make(map[string]struct{})
	}
	s.byClass[class][v.Name] = struct{}{}
}

func (s *State) unlist(v *corev1.PersistentVolume) {
	class := volume.GetPersistentVolumeClass(v)
	if delete(s.byClass[class], v.Name); len(s.byClass[class]) == 0 {
		delete(s.byClass, class)
	}
}

// Volume returns a volume: the assumed one if there is one.
func (s *State) Volume(name string) (*corev1.PersistentVolume, bool) {
	k, ok := s.volumes[name]
	if !ok {
		return nil, false
	}
	return k.get(), true
}

// ShownVolume returns a volume as it is in the API.
func (s *State) ShownVolume(name string) (*corev1.PersistentVolume, bool) {
	k, ok := s.volumes[name]
	if !ok {
		return nil, false
	}
	return k.shown, true
}

// VolumesOf returns the volumes of a class, sorted by name.
func (s *State) VolumesOf(class string) []*corev1.PersistentVolume {
	names := slices.Sorted(maps.Keys(s.byClass[class]))
	list := make([]*corev1.PersistentVolume, len(names))
	for i, name := range names {
		list[i] = s.volumes[name].get()
	}
	return list
}

// HasVolumes reports whether a class has volumes.
func (s *State) HasVolumes(class string) bool { return len(s.byClass[class]) > 0 }

// AssumeVolume lets a changed volume count until the API shows a newer one.
func (s *State) AssumeVolume(v *corev1.PersistentVolume) {
	if k, ok := s.volumes[v.Name]; ok {
		k.assume(v)
	}
}

// RestoreVolume undoes an assumption.
func (s *State) RestoreVolume(name string) {
	if k, ok := s.volumes[name]; ok {
		k.restore()
	}
}
