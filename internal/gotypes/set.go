package gotypes

import (
	"reflect"
	"sync"
)

// Set holds plans of one kind: what was computed for Go types, once for each, including types that refer to themselves.
// Make it with New. Any number of goroutines may use it.
type Set[P any] struct {
	fill func(p *P, t reflect.Type, of func(reflect.Type) *P)
	done sync.Map // reflect.Type to *P

	mu       sync.Mutex
	building map[reflect.Type]*P // guarded by mu
}

// New makes a set. fill computes the plan of a type. It gets the plans of other types from of; the plan of a type that
// refers back to this one may be incomplete until fill has returned.
func New[P any](fill func(p *P, t reflect.Type, of func(reflect.Type) *P)) *Set[P] {
	return &Set[P]{fill: fill}
}

// Of returns the plan of a type.
func (s *Set[P]) Of(t reflect.Type) *P {
	if p, ok := s.done.Load(t); ok {
		return p.(*P)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.building = map[reflect.Type]*P{}
	p := s.ofLocked(t)
	for t, p := range s.building { // none is published before all are complete
		s.done.Store(t, p)
	}
	s.building = nil
	return p
}

func (s *Set[P]) ofLocked(t reflect.Type) *P {
	if p, ok := s.done.Load(t); ok {
		return p.(*P)
	}
	if p, ok := s.building[t]; ok {
		return p
	}
	p := new(P)
	s.building[t] = p
	s.fill(p, t, s.ofLocked)
	return p
}
