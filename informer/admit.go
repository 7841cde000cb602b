package informer

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// New returns an informer for a source. It does nothing until Run.
func New[T Object](source Source[T], options Options[T]) *Shared[T] {
	s := newShared(options)
	s.labels = func(v *version[T]) labels.Set { return v.plain.GetLabels() }
	connect(s, source, s.admitPlain())
	return s
}

// Project returns an informer whose cache holds what the function makes of each object, and nothing else of it. The
// function must not keep parts of the object that it does not mean to. Selectors of labels work if P has a method
// GetLabels; the options' transform is applied to what the function returned.
func Project[T Object, P any](source Source[T], project func(T) P, options Options[P]) *Shared[P] {
	s := newShared(options)
	s.labels = func(v *version[P]) labels.Set {
		if labelled, ok := any(v.plain).(interface{ GetLabels() map[string]string }); ok {
			return labelled.GetLabels()
		}
		return nil
	}
	connect(s, source, func(object T) (*version[P], error) {
		v := &version[P]{key: KeyOf(object), rv: parseVersion(object.GetResourceVersion()), uid: hashUID(string(object.GetUID()))}
		v.plain = project(object)
		return v, s.transform(v)
	})
	return s
}

// connect makes the informer follow a source.
func connect[I item, T any](s *Shared[T], source Source[I], admit func(I) (*version[T], error)) {
	s.follow = (&reflector[I]{
		source: source,
		sink:   &gate[I, T]{shared: s, admit: admit},
		settings: settings{
			name: s.options.Name, log: s.log, labels: s.options.LabelSelector, fields: s.options.FieldSelector,
			pageSize: s.options.PageSize, patience: s.options.Patience, backoff: s.options.Backoff, metrics: s.options.Metrics,
		},
		failed:    s.failed,
		streaming: !s.options.DisableStreaming,
	}).run
}

// admitPlain keeps objects as they are.
func (s *Shared[T]) admitPlain() func(T) (*version[T], error) {
	return func(object T) (*version[T], error) {
		m, ok := any(object).(metav1.Object)
		if !ok {
			return nil, errNotAnObject
		}
		if s.options.DropManagedFields {
			m.SetManagedFields(nil)
		}
		v := &version[T]{key: KeyOf(m), rv: parseVersion(m.GetResourceVersion()), uid: hashUID(string(m.GetUID()))}
		v.plain = object
		return v, s.transform(v)
	}
}

func (s *Shared[T]) transform(v *version[T]) error {
	if s.options.Transform == nil {
		return nil
	}
	changed, err := s.options.Transform(v.plain)
	if err != nil {
		return fmt.Errorf("informer %s: transform %s: %w", s.options.Name, v.key, err)
	}
	v.plain = changed
	return nil
}

func (s *Shared[T]) equal(a, b T) bool { return equality.Semantic.DeepEqual(a, b) }

// glance returns what a version stands for, to somebody who passes by many.
func (s *Shared[T]) glance(v *version[T]) (T, bool) { return s.object(v) }
