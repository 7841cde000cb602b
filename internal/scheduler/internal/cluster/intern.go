package cluster

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"weak"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
)

// Interner converts pods to shapes, and returns the same shape for pods with equal properties. Shapes that are not used
// any more are garbage. It is safe for concurrent use.
type Interner struct {
	// Readers read parts of pods that a Demand does not contain otherwise. Pods with different results have different
	// demands. Set it before the first use.
	Readers []PodReader

	mu      sync.Mutex
	shapes  weakMap[Shape]
	demands weakMap[Demand]
}

type digest = [sha256.Size]byte

// Shape returns the shape of a pod.
func (in *Interner) Shape(pod *corev1.Pod) *Shape {
	read := make([]string, len(in.Readers))
	for i := range in.Readers {
		read[i] = in.Readers[i].Read(pod)
	}
	requests, scored := demand.Requests(pod), demand.ScoredRequests(pod)
	images := imagesOf(&pod.Spec)
	demandKey := demandDigest(pod, requests, scored, images, read)
	shapeKey := shapeDigest(pod, demandKey)

	in.mu.Lock()
	defer in.mu.Unlock()
	return in.shapes.get(shapeKey, func() *Shape {
		return newShape(pod, in.demands.get(demandKey, func() *Demand {
			return newDemand(pod, requests, scored, images, in.Readers, read)
		}))
	})
}

func newDemand(pod *corev1.Pod, requests, scored demand.Resources, images []string, readers []PodReader, read []string) *Demand {
	return &Demand{
		Requests: requests, Scored: scored, Images: images, readers: readers, read: read,
		Ports:       demand.HostPorts(&pod.Spec),
		Match:       demand.NodeMatchOf(&pod.Spec),
		Preferred:   demand.PreferredNodes(&pod.Spec),
		Tolerations: slices.Clone(pod.Spec.Tolerations),
	}
}

func newShape(pod *corev1.Pod, d *Demand) *Shape {
	s := &Shape{
		Demand:    d,
		Namespace: pod.Namespace,
		Labels:    maps.Clone(pod.Labels),
		Owner:     ownerOf(pod),
		Spread:    spreadOf(pod),
	}
	if pod.Spec.Affinity == nil {
		return s
	}
	if a := pod.Spec.Affinity.PodAffinity; a != nil {
		s.Affinity = termsOf(pod, a.RequiredDuringSchedulingIgnoredDuringExecution)
		s.PreferredAffinity = weightedTermsOf(pod, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := pod.Spec.Affinity.PodAntiAffinity; a != nil {
		s.AntiAffinity = termsOf(pod, a.RequiredDuringSchedulingIgnoredDuringExecution)
		s.PreferredAntiAffinity = weightedTermsOf(pod, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return s
}

func demandDigest(pod *corev1.Pod, requests, scored demand.Resources, images, read []string) digest {
	w := writer{buf: make([]byte, 0, 512)}
	w.resources(requests)
	w.resources(scored)
	w.strings(images)
	w.strings(read)
	w.pairs(pod.Spec.NodeSelector)
	for _, port := range demand.HostPorts(&pod.Spec) {
		w.text(port.IP)
		w.text(string(port.Protocol))
		w.number(int64(port.Number))
	}
	w.number(int64(len(pod.Spec.Tolerations)))
	for i := range pod.Spec.Tolerations {
		w.message(&pod.Spec.Tolerations[i])
	}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		w.message(a.NodeAffinity)
	}
	return sha256.Sum256(w.buf)
}

func shapeDigest(pod *corev1.Pod, own digest) digest {
	w := writer{buf: append(make([]byte, 0, 512), own[:]...)}
	w.text(pod.Namespace)
	w.pairs(pod.Labels)
	owner := ownerOf(pod)
	w.text(owner.Kind)
	w.text(owner.Name)
	w.number(int64(len(pod.Spec.TopologySpreadConstraints)))
	for i := range pod.Spec.TopologySpreadConstraints {
		w.message(&pod.Spec.TopologySpreadConstraints[i])
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		w.text("with")
		w.message(a.PodAffinity)
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		w.text("without")
		w.message(a.PodAntiAffinity)
	}
	return sha256.Sum256(w.buf)
}

// writer encodes what is hashed. Different pods always write different bytes.
type writer struct{ buf []byte }

func (w *writer) number(n int64) { w.buf = binary.AppendVarint(w.buf, n) }

func (w *writer) text(s string) {
	w.number(int64(len(s)))
	w.buf = append(w.buf, s...)
}

func (w *writer) strings(list []string) {
	w.number(int64(len(list)))
	for _, s := range list {
		w.text(s)
	}
}

func (w *writer) pairs(m map[string]string) {
	w.number(int64(len(m)))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		w.text(key)
		w.text(m[key])
	}
}

func (w *writer) resources(r demand.Resources) {
	w.number(r.MilliCPU)
	w.number(r.Memory)
	w.number(r.EphemeralStorage)
	w.number(int64(len(r.Extended)))
	for _, name := range slices.Sorted(maps.Keys(r.Extended)) {
		w.text(string(name))
		w.number(r.Extended[name])
	}
}

// message writes a part of the API as protobuf, which is equal for equal parts.
func (w *writer) message(m interface{ Marshal() ([]byte, error) }) {
	encoded, err := m.Marshal()
	if err != nil {
		panic("cluster: a pod's spec cannot be encoded: " + err.Error())
	}
	w.text(string(encoded))
}

// weakMap finds values by digest without keeping them in memory.
type weakMap[T any] struct {
	entries map[digest]weak.Pointer[T]
	sweepAt int
}

func (m *weakMap[T]) get(key digest, build func() *T) *T {
	if value := m.entries[key].Value(); value != nil {
		return value
	}
	if m.entries == nil {
		m.entries = make(map[digest]weak.Pointer[T])
	}
	if len(m.entries) >= m.sweepAt {
		maps.DeleteFunc(m.entries, func(_ digest, p weak.Pointer[T]) bool { return p.Value() == nil })
		m.sweepAt = max(256, 2*len(m.entries))
	}
	value := build()
	m.entries[key] = weak.Make(value)
	return value
}
