package registry

import (
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/watchcache"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

const (
	nameField      = "metadata.name"
	namespaceField = "metadata.namespace"
)

// Selection says which objects of a kind a list or a watch includes. The zero value includes all.
type Selection struct {
	Namespace string
	Name      string // one object: from a field selector on the name, or from the old watch path
	labels    labels.Selector
	fields    []requirement
	// never says that the selection is empty.
	never bool
	// byField says that a field selector is part of it.
	byField bool
	kind    *resource.Kind // whose fields they are; nil if there are none
}

// requirement is one term of a field selector.
type requirement struct {
	place int // index in the kind's Fields; nameplace and namespaceplace stand for the metadata
	value string
	equal bool
}

const (
	nameplace      = -1
	namespaceplace = -2
)

// Select compiles selectors that have been checked against the face.
func Select(face *resource.Face, namespace, name string, l labels.Selector, f fields.Selector) Selection {
	s := Selection{Namespace: namespace, Name: name}
	if l != nil && !l.Empty() {
		s.labels = l
	}
	if f == nil {
		return s
	}
	kind := face.Of
	for _, r := range f.Requirements() {
		s.byField = true
		equal := r.Operator != selection.NotEquals
		switch {
		case r.Field == nameField && equal:
			s.never = s.never || s.Name != "" && s.Name != r.Value || r.Value == ""
			s.Name = r.Value
		case r.Field == nameField:
			s.fields = append(s.fields, requirement{nameplace, r.Value, false})
		case r.Field == namespaceField && equal && kind.Namespaced:
			s.never = s.never || s.Namespace != "" && s.Namespace != r.Value || r.Value == ""
			s.Namespace = r.Value
		case r.Field == namespaceField:
			s.fields = append(s.fields, requirement{namespaceplace, r.Value, equal})
		default:
			s.kind = kind
			place := slices.IndexFunc(kind.Fields, func(f resource.Field) bool { return f.Label == kindField(face, r.Field) })
			s.fields = append(s.fields, requirement{place, r.Value, equal})
		}
	}
	return s
}

// Supports reports whether a field selector of this face may use the field.
func Supports(face *resource.Face, label string) bool {
	return label == nameField || label == namespaceField && (face.Of.Namespaced || len(face.Of.Fields) == 0 && !face.Of.Custom) ||
		slices.ContainsFunc(face.Of.Fields, func(f resource.Field) bool { return f.Label == kindField(face, label) })
}

// kindField returns the kind's name for a field of a face; empty if the face has no such field.
func kindField(face *resource.Face, label string) string {
	if face.Fields == nil {
		return label
	}
	return face.Fields[label]
}

// Everything reports whether all objects below the prefix are selected.
func (s *Selection) Everything() bool {
	return s.labels == nil && len(s.fields) == 0 && !s.never && s.Name == ""
}

// Matches reports whether an object is selected. Its namespace and name have been checked before.
func (s *Selection) Matches(o *watchcache.Object) bool { return s.matches(o, &o.Attributes) }

// matches is Matches for an object that has the given labels and fields in the requested version.
func (s *Selection) matches(o *watchcache.Object, a *watchcache.Attributes) bool {
	if s.never {
		return false
	}
	if s.labels != nil && !s.labels.Matches(a.Labels) {
		return false
	}
	for _, r := range s.fields {
		if (s.fieldOf(o, a, r.place) == r.value) != r.equal {
			return false
		}
	}
	return s.matchesName(o)
}

// matchesName reports whether an object has the selected namespace and name.
func (s *Selection) matchesName(o *watchcache.Object) bool {
	return (s.Name == "" || o.Name() == s.Name) && (s.Namespace == "" || o.Namespace() == s.Namespace)
}

// byContent reports whether the selection depends on labels or fields that may have other values in another version of
// an object.
func (s *Selection) byContent() bool {
	return !s.never && (s.labels != nil || slices.ContainsFunc(s.fields, func(r requirement) bool { return r.place >= 0 }))
}

func (s *Selection) fieldOf(o *watchcache.Object, a *watchcache.Attributes, place int) string {
	switch {
	case place == nameplace:
		return o.Name()
	case place == namespaceplace:
		return o.Namespace()
	case place >= len(a.Fields):
		return s.lateField(o, place)
	}
	return a.Field(place)
}

// lateField reads a field that could not be selected on when the object was read. It is empty if the object cannot be
// read.
func (s *Selection) lateField(o *watchcache.Object, place int) string {
	found, err := s.kind.Attributes(o.Value())
	if err != nil || place >= len(found.Fields) {
		return ""
	}
	return strings.Clone(found.Fields[place])
}

// topic returns the smallest topic that contains all that the selection can match.
func (s *Selection) topic(st *Storage) watchcache.Topic {
	if s.Name != "" && (s.Namespace != "" || !st.kind.Namespaced) {
		return watchcache.Key(st.key(s.Namespace, s.Name))
	}
	for _, r := range s.fields {
		if r.place >= 0 && r.equal && st.kind.Fields[r.place].Indexed {
			return watchcache.Field(r.place, r.value)
		}
	}
	if s.Namespace != "" && st.kind.Namespaced {
		return watchcache.Namespace(s.Namespace)
	}
	return watchcache.All()
}

// prefix returns the smallest range of keys that contains the selection.
func (s *Selection) prefix(st *Storage) string {
	if s.Namespace != "" && st.kind.Namespaced {
		return st.prefix + s.Namespace + "/"
	}
	return st.prefix
}
