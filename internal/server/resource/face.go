package resource

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Face is one group and version in which a kind is served. The first face of a kind is the kind's own version.
type Face struct {
	schema.GroupVersionKind
	ListKind string
	Resource string
	Of       *Kind
	New      func() runtime.Object
	// From and To convert from and to the kind's own version; both are nil for that version itself.
	From func(Object) runtime.Object
	To   func(runtime.Object) Object
	// Optional says that clients can use the face only if the runtime configuration turns it on.
	Optional bool
	// Unserved says that clients cannot use the face. Objects that were written through it can still be read.
	Unserved bool
	// Deprecated is the warning that clients of the face get with every response.
	Deprecated string
	// Fields maps the names in field selectors to the kind's, where they differ.
	Fields map[string]string
}

// Served returns the faces that clients can use.
func (k *Kind) Served() []*Face {
	return slices.DeleteFunc(slices.Clone(k.Faces), func(f *Face) bool { return f.Unserved })
}

// OwnFace returns the face of the kind's own version.
func OwnFace(k *Kind, newObject func() runtime.Object) *Face {
	return &Face{GroupVersionKind: k.GroupVersionKind(), ListKind: k.ListKind, Resource: k.Resource, Of: k, New: newObject}
}

func face[P Object](k *Kind, s Serving[P]) *Face {
	gvk := schema.GroupVersionKind{Group: s.Group, Version: s.Version, Kind: s.Kind}
	return &Face{
		GroupVersionKind: gvk,
		ListKind:         s.Kind + "List",
		Resource:         k.Resource,
		Of:               k,
		New:              s.New,
		From:             func(o Object) runtime.Object { return s.From(o.(P)) },
		To:               func(o runtime.Object) Object { return s.To(o) },
		Optional:         s.Optional,
		Unserved:         s.Optional,
		Deprecated:       deprecation(gvk, s.New()),
		Fields:           s.Fields,
	}
}
