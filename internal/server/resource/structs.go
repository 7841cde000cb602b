package resource

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/gotypes"
	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/server/resource/alike"
)

// structs is the representation of objects as Go structs. They are stored as protobuf if their type supports it.
type structs struct {
	kind    *Kind
	goType  reflect.Type
	start   []byte // the first bytes of values in the kind's own version, in protobuf
	restore func(Object)
	forms   []form
	written *form // the one of forms that objects are stored in; nil if it is the kind's own version
	marks   marks
	onRead  func(Object)
	paths   []fieldPath
	parts   map[string]int // the struct's fields by their JSON names
}

func newStructs(k *Kind, t reflect.Type, restore func(Object), forms []form) *structs {
	s := &structs{
		kind: k, goType: t, restore: restore, forms: forms, written: written(forms), paths: compileFields(t, k.Fields), parts: map[string]int{},
	}
	for f := range gotypes.Fields(t) {
		if f.JSON != "" {
			s.parts[f.JSON] = f.Index[0]
		}
	}
	if _, ok := s.New().(protobuf.Message); ok {
		s.start = protobuf.AppendEnvelopeStart(nil, k.GroupVersion().String(), k.Kind)
	} else {
		k.Stored = StoredJSON
	}
	return s
}

func (s *structs) New() Object { return reflect.New(s.goType).Interface().(Object) }

func (s *structs) Encode(_ context.Context, o Object) ([]byte, error) {
	version := o.GetResourceVersion()
	o.SetResourceVersion("")
	defer o.SetResourceVersion(version)
	if s.written != nil {
		return s.written.encode(o)
	}
	if m, ok := o.(protobuf.Message); ok {
		return protobuf.Marshal(s.kind.GroupVersion().String(), s.kind.Kind, m)
	}
	o.GetObjectKind().SetGroupVersionKind(s.kind.GroupVersionKind())
	b, err := json.Marshal(o)
	return append(b, '\n'), err
}

func (s *structs) Decode(_ context.Context, stored []byte, version string) (Object, error) {
	o, err := s.decode(stored)
	if err != nil {
		return nil, fmt.Errorf("decode stored %s: %w", s.kind.Kind, err)
	}
	o.SetResourceVersion(version)
	o.GetObjectKind().SetGroupVersionKind(s.kind.GroupVersionKind())
	if s.restore != nil {
		s.restore(o)
	}
	return o, nil
}

func (s *structs) DecodeAll(ctx context.Context, stored []Stored) ([]Object, error) {
	out := make([]Object, len(stored))
	for i, e := range stored {
		var err error
		if out[i], err = s.Decode(ctx, e.Bytes, e.ResourceVersion); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *structs) decode(stored []byte) (Object, error) {
	if s.own(stored) {
		message, err := protobuf.Content(stored)
		if err != nil {
			return nil, err
		}
		o := s.New()
		if err := o.(protobuf.Message).Unmarshal(message); err != nil {
			return nil, err
		}
		if !s.marks.found(message) {
			s.complete(o)
		}
		return o, nil
	}
	return s.decodeOther(stored)
}

// Rewrites implements Rewriting.
func (s *structs) Rewrites() bool { return s.written != nil }

// own reports whether bytes are a protobuf document of the kind's own version.
func (s *structs) own(stored []byte) bool { return s.start != nil && bytes.HasPrefix(stored, s.start) }

// decodeOther decodes bytes in JSON, or of another version of the kind. They get the kind's defaults: who stored them
// may not have known these.
func (s *structs) decodeOther(stored []byte) (Object, error) {
	o, err := s.decodeVersion(stored)
	if err != nil {
		return nil, err
	}
	s.complete(o)
	return o, nil
}

// complete gives an object that an older server has stored what it lacks today.
func (s *structs) complete(o Object) {
	s.kind.Default(o)
	if s.onRead != nil {
		s.onRead(o)
	}
}

func (s *structs) decodeVersion(stored []byte) (Object, error) {
	if !protobuf.Enveloped(stored) {
		var said struct{ APIVersion, Kind string }
		if err := json.Unmarshal(stored, &said); err != nil {
			return nil, err
		}
		return s.read(said.APIVersion, said.Kind, func(o runtime.Object) error { return json.Unmarshal(stored, o) })
	}
	env, err := protobuf.Open(stored)
	if err != nil {
		return nil, err
	}
	return s.read(env.APIVersion, env.Kind, func(o runtime.Object) error {
		m, ok := o.(protobuf.Message)
		if !ok {
			return fmt.Errorf("a %T has no form in protobuf", o)
		}
		return m.Unmarshal(env.Raw)
	})
}

// read decodes an object in the version in which it was stored, and converts it.
func (s *structs) read(apiVersion, kind string, fill func(runtime.Object) error) (Object, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, err
	}
	for _, f := range s.kind.Faces {
		if f.GroupVersionKind != gv.WithKind(kind) {
			continue
		}
		o := f.New()
		if err := fill(o); err != nil || f.To == nil {
			return o.(Object), err
		}
		return f.To(o), nil
	}
	for _, f := range s.forms {
		if f.GroupVersionKind == gv.WithKind(kind) {
			o := f.new()
			if err := fill(o); err != nil {
				return nil, err
			}
			return f.to(o)
		}
	}
	return nil, fmt.Errorf("it is stored as %s of %s, which is no version of the kind", kind, apiVersion)
}

func (s *structs) Keep(o, old Object, part string) {
	f := elem(o).Field(s.part(part))
	if old == nil {
		f.SetZero()
		return
	}
	f.Set(elem(old).Field(s.parts[part]))
}

func (s *structs) KeepAllBut(o, old Object, part string) {
	s.part(part)
	to, from := elem(o), elem(old)
	for name, i := range s.parts {
		if name != part && name != "metadata" {
			to.Field(i).Set(from.Field(i))
		}
	}
}

func (s *structs) Same(a, b Object, part string) bool {
	i := s.part(part)
	return alike.Values(elem(a).Field(i), elem(b).Field(i))
}

func (s *structs) part(name string) int {
	i, ok := s.parts[name]
	if !ok {
		panic("resource: " + s.goType.String() + " has no field " + name)
	}
	return i
}

func elem(o Object) reflect.Value { return reflect.ValueOf(o).Elem() }

// GoType returns the struct type of the kind's objects; nil if they are not structs.
func (k *Kind) GoType() reflect.Type {
	if s, ok := k.Representation.(*structs); ok {
		return s.goType
	}
	return nil
}

// Message returns the protobuf message in stored bytes of the kind's own version, if it has all defaults. whole says that the message is the
// complete object, so that Restore need not be called.
func (k *Kind) Message(stored []byte) (message []byte, whole, ok bool) {
	s, isStruct := k.Representation.(*structs)
	if !isStruct || !s.own(stored) {
		return nil, false, false
	}
	message, err := protobuf.Content(stored)
	if err != nil || !s.marks.found(message) {
		return nil, false, false
	}
	return message, s.restore == nil, true
}
