package informer

import (
	"fmt"
	"log/slog"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/informer/internal/intern"
	"github.com/millrace/millrace/informer/internal/state"
	"github.com/millrace/millrace/informer/internal/wire"
)

// New returns an informer for a source. It does nothing until Run.
func New[T Object](source Source[T], options Options[T]) *Shared[T] {
	s := newShared(options)
	s.labels = labelsOf[T]
	s.equal = func(a, b T) bool { return equality.Semantic.DeepEqual(a, b) }
	for _, p := range partsOf(source) {
		encoded, ok := encodedOf(p.source, options.DropManagedFields)
		switch {
		case !ok:
			addPart(s, p.namespace, p.source, admitPlain(s))
		case options.HotBytes < 0:
			addPart(s, p.namespace, encoded, admitDecoded(s))
		default:
			s.keepEncoded()
			addPart(s, p.namespace, encoded, admitPacked(s))
		}
	}
	return s
}

// keepEncoded prepares an informer for encoded objects.
func (s *Shared[T]) keepEncoded() {
	if s.hot == nil {
		s.hot = state.NewHotSet[T](s.options.HotBytes, func(key Key, err error) { s.report(s.undecodable(key, err)) })
	}
}

// Project returns an informer whose cache holds what the function makes of each object, and nothing else of it. The
// function must not modify the object, which shares parts with others, nor keep parts of it that it does not mean to.
// Selectors of labels work if P has a method GetLabels; the options' transform is applied to what the function returned.
func Project[T Object, P any](source Source[T], project func(T) P, options Options[P]) *Shared[P] {
	s := newShared(options)
	s.labels = labelsOf[P]
	s.equal = func(a, b P) bool { return reflect.DeepEqual(a, b) } // which bears fields that are not exported
	admit := func(object T) (*state.Version[P], error) {
		v := state.Describe[P](object)
		v.Plain = project(object)
		return v, s.transform(v)
	}
	decoder := wire.NewDecoder[T]()
	admitEncoded := func(e *wire.Object) (*state.Version[P], error) {
		object, err := decoder.Decode(e.Bytes)
		if err != nil {
			return nil, s.undecodable(keyOfEncoded(e), err)
		}
		return admit(object)
	}
	for _, p := range partsOf(source) {
		if encoded, ok := encodedOf(p.source, options.DropManagedFields); ok {
			addPart(s, p.namespace, encoded, admitEncoded)
		} else {
			addPart(s, p.namespace, p.source, admit)
		}
	}
	return s
}

// encodable is a source that can deliver objects as they were sent.
type encodable interface {
	encoded(dropManagedFields bool) (Source[*wire.Object], bool)
}

// encodedOf returns a source of the same objects in encoded form, if there is one.
func encodedOf[T Object](source Source[T], dropManagedFields bool) (Source[*wire.Object], bool) {
	if able, ok := source.(encodable); ok {
		return able.encoded(dropManagedFields)
	}
	return nil, false
}

// newReflector returns a reflector with an informer's settings.
func newReflector[I item](settings settings, source Source[I], into sink[I], failed func(error)) *reflector[I] {
	return &reflector[I]{source: source, sink: into, settings: settings, failed: failed}
}

// settings returns those options that a reflector needs. The defaults are in place.
func (o Options[T]) settings(log *slog.Logger) settings {
	return settings{
		name: o.Name, log: log, labels: o.LabelSelector, fields: o.FieldSelector, streams: !o.DisableStreaming,
		pageSize: o.PageSize, streamTimeout: o.StreamTimeout, backoff: o.Backoff, metrics: o.Metrics,
	}
}

func keyOfEncoded(e *wire.Object) Key { return Key{Namespace: e.Namespace, Name: e.Name} }

// admitPlain keeps decoded objects, which share the strings that repeat.
func admitPlain[T Object](s *Shared[T]) func(T) (*state.Version[T], error) {
	var words intern.Strings
	return func(object T) (*state.Version[T], error) {
		if s.options.DropManagedFields {
			object.SetManagedFields(nil)
		}
		v := state.Describe[T](object)
		v.Plain = object
		err := s.transform(v)
		words.Object(v.Plain)
		v.Key.Namespace = words.String(v.Key.Namespace)
		return v, err
	}
}

// admitDecoded decodes objects and keeps them so.
func admitDecoded[T Object](s *Shared[T]) func(*wire.Object) (*state.Version[T], error) {
	plain := admitPlain(s)
	return func(e *wire.Object) (*state.Version[T], error) {
		object, err := wire.Decode[T](e.Bytes)
		if err != nil {
			return nil, s.undecodable(keyOfEncoded(e), err)
		}
		return plain(object)
	}
}

// admitPacked keeps objects encoded.
func admitPacked[T Object](s *Shared[T]) func(*wire.Object) (*state.Version[T], error) {
	transformed := transformPacked(s)
	return func(e *wire.Object) (*state.Version[T], error) {
		v := &state.Version[T]{Key: keyOfEncoded(e), Revision: state.ParseRevision(e.Version), UID: e.UID, Packed: e.Bytes}
		if s.options.Transform == nil {
			return v, nil
		}
		return v, transformed(v)
	}
}

// transformPacked applies the options' transform to an encoded version.
func transformPacked[T Object](s *Shared[T]) func(*state.Version[T]) error {
	return func(v *state.Version[T]) error {
		object, err := wire.Decode[T](v.Packed)
		if err != nil {
			return s.undecodable(v.Key, err)
		}
		if object, err = s.options.Transform(object); err != nil {
			return fmt.Errorf("informer %s: transform %s: %w", s.options.Name, v.Key, err)
		}
		packed, err := wire.Encode(object)
		if err != nil {
			return fmt.Errorf("informer %s: encode transformed %s: %w", s.options.Name, v.Key, err)
		}
		v.Packed = packed
		return nil
	}
}

func (s *Shared[T]) transform(v *state.Version[T]) error {
	if s.options.Transform == nil {
		return nil
	}
	changed, err := s.options.Transform(v.Plain)
	if err != nil {
		return fmt.Errorf("informer %s: transform %s: %w", s.options.Name, v.Key, err)
	}
	v.Plain = changed
	return nil
}

func (s *Shared[T]) undecodable(key Key, err error) error {
	return fmt.Errorf("informer %s: decode %s: %w", s.options.Name, key, err)
}

// labelsOf returns a version's labels. Those of an encoded one are read without decoding the rest.
func labelsOf[T any](v *state.Version[T]) labels.Set {
	if v.Packed != nil {
		return wire.Labels(v.Packed)
	}
	if labelled, ok := any(v.Plain).(interface{ GetLabels() map[string]string }); ok {
		return labelled.GetLabels()
	}
	return nil
}

// object returns what a version stands for. Another version of the same object helps if it is decoded; it may be nil.
func (s *Shared[T]) object(v, like *state.Version[T]) (T, bool) {
	if v.Packed == nil {
		return v.Plain, true
	}
	return s.hot.Object(v, like)
}

// peek returns what a version stands for, for loops over many: it leaves the set of decoded objects as it is.
func (s *Shared[T]) peek(v *state.Version[T]) (T, bool) {
	if v.Packed == nil {
		return v.Plain, true
	}
	return s.hot.Peek(v)
}
