package informer

import (
	"fmt"
	"log/slog"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// New returns an informer for a source. It does nothing until Run.
func New[T Object](source Source[T], options Options[T]) *Shared[T] {
	s := newShared(options)
	s.labels = labelsOf[T]
	s.equal = func(a, b T) bool { return equality.Semantic.DeepEqual(a, b) }
	for _, p := range partsOf(source) {
		wire, ok := wireOf(p.source, options.DropManagedFields)
		switch {
		case !ok:
			addPart(s, p.namespace, p.source, admitPlain(s))
		case options.Hot < 0:
			addPart(s, p.namespace, wire, admitDecoded(s))
		default:
			warmUp(s)
			addPart(s, p.namespace, wire, admitPacked(s))
		}
	}
	return s
}

// warmUp prepares an informer for encoded objects.
func warmUp[T Object](s *Shared[T]) {
	decoder := newDecoder[T]()
	s.hot.decode, s.hot.decodeLike, s.hot.limit = decoder.decode, decoder.decodeLike, s.options.Hot
	s.batch = max(1, min(crewBatch, s.hot.limit/4)) // what one handler has decoded, the next shall find at hand
	s.hot.failed = func(key Key, err error) { s.report(s.undecodable(key, err)) }
}

// Project returns an informer whose cache holds what the function makes of each object, and nothing else of it. The
// function must not modify the object, which shares parts with others, nor keep parts of it that it does not mean to.
// Selectors of labels work if P has a method GetLabels; the options' transform is applied to what the function returned.
func Project[T Object, P any](source Source[T], project func(T) P, options Options[P]) *Shared[P] {
	s := newShared(options)
	s.labels = labelsOf[P]
	s.equal = func(a, b P) bool { return reflect.DeepEqual(a, b) } // which bears fields that are not exported
	admit := func(object T) (*version[P], error) {
		v := describe[P](object)
		v.plain = project(object)
		return v, s.transform(v)
	}
	decoder := newDecoder[T]()
	admitWire := func(e *encoded) (*version[P], error) {
		object, err := decoder.decode(e.bytes)
		if err != nil {
			return nil, s.undecodable(e.key, err)
		}
		return admit(object)
	}
	for _, p := range partsOf(source) {
		if wire, ok := wireOf(p.source, options.DropManagedFields); ok {
			addPart(s, p.namespace, wire, admitWire)
		} else {
			addPart(s, p.namespace, p.source, admit)
		}
	}
	return s
}

// wireOf returns a source of the same objects in encoded form, if there is one.
func wireOf[T Object](source Source[T], dropManagedFields bool) (Source[*encoded], bool) {
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
		pageSize: o.PageSize, patience: o.Patience, backoff: o.Backoff, metrics: o.Metrics,
	}
}

// describe returns a version without content.
func describe[T any](object metav1.Object) *version[T] {
	return &version[T]{key: KeyOf(object), rv: parseVersion(object.GetResourceVersion()), uid: hashUID(string(object.GetUID()))}
}

// admitPlain keeps decoded objects, which share the strings that repeat.
func admitPlain[T Object](s *Shared[T]) func(T) (*version[T], error) {
	share := sharer{}
	return func(object T) (*version[T], error) {
		if s.options.DropManagedFields {
			object.SetManagedFields(nil)
		}
		v := describe[T](object)
		v.plain = object
		err := s.transform(v)
		share.object(v.plain)
		v.key.Namespace = share.words.one(v.key.Namespace)
		return v, err
	}
}

// admitDecoded decodes objects and keeps them so.
func admitDecoded[T Object](s *Shared[T]) func(*encoded) (*version[T], error) {
	plain := admitPlain(s)
	return func(e *encoded) (*version[T], error) {
		object, err := decodeInto[T](e.bytes)
		if err != nil {
			return nil, s.undecodable(e.key, err)
		}
		return plain(object)
	}
}

// admitPacked keeps objects encoded.
func admitPacked[T Object](s *Shared[T]) func(*encoded) (*version[T], error) {
	transformed := transformPacked(s)
	return func(e *encoded) (*version[T], error) {
		v := &version[T]{key: e.key, rv: parseVersion(e.version), uid: e.uid, packed: e.bytes}
		if s.options.Transform == nil {
			return v, nil
		}
		return v, transformed(v)
	}
}

// transformPacked applies the options' transform to an encoded version.
func transformPacked[T Object](s *Shared[T]) func(*version[T]) error {
	return func(v *version[T]) error {
		object, err := decodeInto[T](v.packed)
		if err != nil {
			return s.undecodable(v.key, err)
		}
		if object, err = s.options.Transform(object); err != nil {
			return fmt.Errorf("informer %s: transform %s: %w", s.options.Name, v.key, err)
		}
		packed, err := any(object).(protobuf).Marshal()
		if err != nil {
			return fmt.Errorf("informer %s: encode transformed %s: %w", s.options.Name, v.key, err)
		}
		v.packed = packed
		return nil
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

func (s *Shared[T]) undecodable(key Key, err error) error {
	return fmt.Errorf("informer %s: decode %s: %w", s.options.Name, key, err)
}

// labelsOf returns a version's labels. Those of an encoded one are read without decoding the rest.
func labelsOf[T any](v *version[T]) labels.Set {
	if v.packed != nil {
		meta, err := objectMeta(v.packed)
		if err != nil {
			return nil
		}
		return readMap(meta, metaLabels, nil)
	}
	if labelled, ok := any(v.plain).(interface{ GetLabels() map[string]string }); ok {
		return labelled.GetLabels()
	}
	return nil
}

// object returns what a version stands for.
func (s *Shared[T]) object(v *version[T]) (T, bool) {
	if v.packed == nil {
		return v.plain, true
	}
	return s.hot.object(v, nil)
}

// glance returns what a version stands for, to somebody who passes by many.
func (s *Shared[T]) glance(v *version[T]) (T, bool) {
	if v.packed == nil {
		return v.plain, true
	}
	return s.hot.glance(v)
}
