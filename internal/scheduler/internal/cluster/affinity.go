package cluster

import (
	"iter"
	"maps"

	"k8s.io/apimachinery/pkg/labels"
)

// SetNamespace sets a namespace's labels; nil if it was deleted.
func (s *State) SetNamespace(name string, set map[string]string) bool {
	if old, ok := s.namespaces[name]; ok == (set != nil) && maps.Equal(old, set) {
		return false
	}
	if s.namespaces == nil {
		s.namespaces = make(map[string]labels.Set)
	}
	if set == nil {
		delete(s.namespaces, name)
	} else {
		s.namespaces[name] = set
	}
	s.namespacesVersion++
	return true
}

// Selects reports whether a term selects pods of this shape.
func (s *State) Selects(term *Term, shape *Shape) bool {
	return s.inNamespaces(term, shape.Namespace) && term.Selector.Matches(shape.Labels)
}

func (s *State) inNamespaces(term *Term, namespace string) bool {
	for _, name := range term.Namespaces {
		if name == namespace {
			return true
		}
	}
	return term.NamespacesBy != nil && term.NamespacesBy.Matches(s.namespaces[namespace])
}

// WithAffinity ranges over the shapes of placed pods that have pod affinity or anti-affinity.
func (s *State) WithAffinity() iter.Seq[*Shape] { return maps.Keys(s.affine) }

// AffinityVersion changes with the results of WithAffinity and with the labels of namespaces.
func (s *State) AffinityVersion() uint64 { return s.affineVersion + s.namespacesVersion }

// NamespacesVersion changes with the labels of namespaces, and so with the results of Selects.
func (s *State) NamespacesVersion() uint64 { return s.namespacesVersion }

func (s *State) countAffinity(shape *Shape, by int) {
	if s.affine == nil {
		s.affine = make(map[*Shape]int)
	}
	before := s.affine[shape]
	switch after := before + by; after {
	case 0:
		delete(s.affine, shape)
	default:
		s.affine[shape] = after
	}
	if before == 0 || before+by == 0 {
		s.affineVersion++
	}
}
