package resource

import (
	"fmt"

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
}

// form is a Form without its Go type.
type form struct {
	schema.GroupVersionKind
	new  func() runtime.Object
	to   func(runtime.Object) (Object, error)
	from func(Object) (runtime.Object, error)
}

func erasedForms[P Object](all []Form[P]) (out []form) {
	for _, f := range all {
		e := form{GroupVersionKind: f.GroupVersionKind, new: f.New}
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
	m, ok := converted.(protobuf.Message)
	if !ok {
		return nil, fmt.Errorf("a %T has no form in protobuf", converted)
	}
	return protobuf.Marshal(f.GroupVersion().String(), f.Kind, m)
}
