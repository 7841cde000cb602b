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
	s.resource = resourceListed(source)
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

// keepEncoded makes the informer keep its objects encoded, with a bounded set of decoded ones.
func (s *Shared[T]) keepEncoded() {
	if s.hot == nil {
		s.hot = state.NewHotSet[T](s.options.HotBytes, func(key Key, err error) { s.report(s.undecodable(key, err)) })
	}
}

// Project returns an informer that caches the result of a function for each object, and nothing else of the object. The
// function must not modify the object, parts of which are shared with other objects, and its result must not refer to
// parts of the object that it does not need: they would stay in memory. Label selectors work if P has a method
// GetLabels. The options' transform is applied to the function's result.
func Project[T Object, P any](source Source[T], project func(T) P, options Options[P]) *Shared[P] {
	s := newShared(options)
	s.resource = resourceListed(source)
	s.labels = labelsOf[P]
	s.equal = func(a, b P) bool { return reflect.DeepEqual(a, b) } // unlike equality.Semantic, it accepts unexported fields
	decoder := wire.NewDecoder[T]()
	for _, p := range partsOf(source) {
		admit := admitProjection(s, project)
		if encoded, ok := encodedOf(p.source, options.DropManagedFields); ok {
			addPart(s, p.namespace, encoded, decodedFirst(s, decoder, admit))
		} else {
			addPart(s, p.namespace, p.source, admit)
		}
	}
	return s
}

// admitProjection keeps projections of objects.
func admitProjection[T Object, P any](s *Shared[P], project func(T) P) func(T) (*state.Version[P], error) {
	var words intern.Strings
	return func(object T) (*state.Version[P], error) {
		v := state.Describe[P](object)
		v.Key.Namespace = words.String(v.Key.Namespace)
		v.Plain = project(object)
		return v, s.transform(v)
	}
}

// decodedFirst decodes objects, whose parts are shared with others, and passes them on.
func decodedFirst[T Object, P any](s *Shared[P], decoder *wire.Decoder[T], admit func(T) (*state.Version[P], error)) func(*wire.Object) (*state.Version[P], error) {
	return func(e *wire.Object) (*state.Version[P], error) {
		object, err := decoder.Decode(e.Bytes)
		if err != nil {
			return nil, s.undecodable(keyOfEncoded(e), err)
		}
		return admit(object)
	}
}

// encodable is a source that can deliver objects as the bytes that the server sent.
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

// settings returns the options that a reflector needs. Defaults have been applied.
func (o Options[T]) settings(log *slog.Logger) settings {
	return settings{
		name: o.Name, log: log, labels: o.LabelSelector, fields: o.FieldSelector, streams: !o.DisableStreaming,
		pageSize: o.PageSize, streamTimeout: o.StreamTimeout, watchFor: o.WatchFor, backoff: o.Backoff, metrics: o.Metrics,
	}
}

func keyOfEncoded(e *wire.Object) Key { return Key{Namespace: e.Namespace, Name: e.Name} }

// admitPlain keeps decoded objects. Strings that repeat are shared between them.
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

// admitDecoded decodes objects and keeps them decoded.
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

// labelsOf returns a version's labels. For an encoded version only the labels are decoded.
func labelsOf[T any](v *state.Version[T]) labels.Set {
	if v.Packed != nil {
		return wire.Labels(v.Packed)
	}
	if labelled, ok := any(v.Plain).(interface{ GetLabels() map[string]string }); ok {
		return labelled.GetLabels()
	}
	return nil
}

// object returns a version's object. If like is a decoded version of the same object, decoding is cheaper; like may be
// nil.
func (s *Shared[T]) object(v, like *state.Version[T]) (T, bool) {
	if v.Packed == nil {
		return v.Plain, true
	}
	return s.hot.Object(v, like)
}

// peek returns a version's object without changing which objects are kept decoded. It is for loops over many objects.
func (s *Shared[T]) peek(v *state.Version[T]) (T, bool) {
	if v.Packed == nil {
		return v.Plain, true
	}
	return s.hot.Peek(v)
}
