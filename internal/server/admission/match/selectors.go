package match

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Selectors are those of a webhook or of a policy. Nil selects everything.
type Selectors struct {
	namespace, object labels.Selector
	err               error
}

// Compile reads selectors. What is wrong with them is an error of each request that they concern.
func Compile(namespace, object *metav1.LabelSelector) (s Selectors) {
	read := func(from *metav1.LabelSelector) labels.Selector {
		if from == nil {
			return nil
		}
		made, err := metav1.LabelSelectorAsSelector(from)
		if err != nil {
			s.err = err
		}
		if err != nil || made.Empty() {
			return nil
		}
		return made
	}
	s.namespace, s.object = read(namespace), read(object)
	return s
}

// Subject is what selectors look at.
type Subject interface {
	// NamespaceLabels are the labels of the namespace of the object. There are none to look at if ok is false: then
	// every namespace fits.
	NamespaceLabels() (l labels.Labels, ok bool, err error)
	// ObjectLabels are those of the new and of the old object, as far as there are such.
	ObjectLabels() []labels.Labels
}

// Match tells whether an object is selected. An error means that it may be.
func (s *Selectors) Match(of Subject) (bool, error) {
	if s.err != nil {
		return true, s.err
	}
	matches, err := s.matchNamespace(of)
	if !matches || s.object == nil {
		return matches, err
	}
	for _, l := range of.ObjectLabels() {
		if s.object.Matches(l) {
			return true, err
		}
	}
	return false, nil
}

func (s *Selectors) matchNamespace(of Subject) (bool, error) {
	if s.namespace == nil {
		return true, nil
	}
	l, ok, err := of.NamespaceLabels()
	if err != nil || !ok {
		return true, err
	}
	return s.namespace.Matches(l), nil
}
