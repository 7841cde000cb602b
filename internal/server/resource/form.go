package resource

import (
	"encoding/json"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/protobuf"
)

// Form is a version in which objects of a kind may be stored besides its faces. Clients cannot use it: Kubernetes has
// stopped serving it, and its objects are still in stores that are older.
type Form[P Object] struct {
	schema.GroupVersionKind
	// New returns an empty object of this version.
	New func() runtime.Object
	// To converts an object of this version to the kind's own. They may share parts.
	To func(runtime.Object) (P, error)
	// From converts an object of the kind to this version, in which objects are stored then. Nil for all but one form.
	// It changes nothing of the object; they may share parts.
	From func(P) (runtime.Object, error)
	// JSON says that objects are stored as JSON, and not as protobuf.
	JSON bool
}

// form is a Form without its Go type.
type form struct {
	schema.GroupVersionKind
	new  func() runtime.Object
	to   func(runtime.Object) (Object, error)
	from func(Object) (runtime.Object, error)
	json bool
}

func erasedForms[P Object](all []Form[P]) (out []form) {
	for _, f := range all {
		e := form{GroupVersionKind: f.GroupVersionKind, new: f.New, json: f.JSON}
		e.to = func(o runtime.Object) (Object, error) {
			own, err := f.To(o)
			if err != nil {
				return nil, err
			}
			return own, nil
		}
		if f.From != nil {
			e.from = func(o Object) (runtime.Object, error) { return f.From(o.(P)) }
		}
		out = append(out, e)
	}
	return out
}

// written returns the form in which objects are stored; nil if they are stored in the kind's own version.
func written(forms []form) *form {
	for i := range forms {
		if forms[i].from != nil {
			return &forms[i]
		}
	}
	return nil
}

// encode returns the bytes to store for an object whose resource version has been removed.
func (f *form) encode(o Object) ([]byte, error) {
	converted, err := f.from(o)
	if err != nil {
		return nil, fmt.Errorf("convert to %s: %w", f.GroupVersion(), err)
	}
	if f.json {
		converted.GetObjectKind().SetGroupVersionKind(f.GroupVersionKind)
		b, err := json.Marshal(converted)
		return append(b, '\n'), err
	}
	m, ok := converted.(protobuf.Message)
	if !ok {
		return nil, fmt.Errorf("a %T has no form in protobuf", converted)
	}
	return protobuf.Marshal(f.GroupVersion().String(), f.Kind, m)
}

// AddForms adds versions in which objects of a kind may be stored. Nobody may use the kind yet.
func AddForms[P Object](k *Kind, forms ...Form[P]) {
	s := k.Representation.(*structs)
	s.forms = append(s.forms, erasedForms(forms)...)
	s.written = written(s.forms)
}

// NewForm returns an empty object of a form or face of the kind; nil if there is none of that name.
func (k *Kind) NewForm(gvk schema.GroupVersionKind) runtime.Object {
	if s, ok := k.Representation.(*structs); ok {
		for _, f := range s.forms {
			if f.GroupVersionKind == gvk {
				return f.new()
			}
		}
	}
	for _, f := range k.Faces {
		if f.GroupVersionKind == gvk {
			return f.New()
		}
	}
	return nil
}

// FormKinds returns the names of the versions, besides the faces, in which objects may be stored.
func (k *Kind) FormKinds() iter.Seq[schema.GroupVersionKind] {
	return func(yield func(schema.GroupVersionKind) bool) {
		s, ok := k.Representation.(*structs)
		if !ok {
			return
		}
		for _, f := range s.forms {
			if !yield(f.GroupVersionKind) {
				return
			}
		}
	}
}
