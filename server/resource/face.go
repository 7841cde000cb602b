package resource

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Face is one group and version under which a kind is served. The first face of a kind is the kind itself.
type Face struct {
	schema.GroupVersionKind
	ListKind string
	Resource string
	Of       *Kind
	New      func() runtime.Object
	// From and To are nil for the kind's own face.
	From func(Object) runtime.Object
	To   func(runtime.Object) Object
	// Fields maps the labels of field selectors to the kind's, where they differ.
	Fields map[string]string
}

// OwnFace is the face that shows a kind as it is.
func OwnFace(k *Kind, newObject func() runtime.Object) *Face {
	return &Face{GroupVersionKind: k.GroupVersionKind(), ListKind: k.ListKind, Resource: k.Resource, Of: k, New: newObject}
}

func face[P Object](k *Kind, s Serving[P]) *Face {
	return &Face{
		GroupVersionKind: schema.GroupVersionKind{Group: s.Group, Version: s.Version, Kind: s.Kind},
		ListKind:         s.Kind + "List",
		Resource:         k.Resource,
		Of:               k,
		New:              s.New,
		From:             func(o Object) runtime.Object { return s.From(o.(P)) },
		To:               func(o runtime.Object) Object { return s.To(o) },
		Fields:           s.Fields,
	}
}
