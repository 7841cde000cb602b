package resource

import (
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

// Kind is the current description of a kind: a Description without its Go type, or one made from a
// CustomResourceDefinition. It never changes. If the rules, columns or versions of a kind change, it gets a new Kind
// with the same Identity.
type Kind struct {
	*Identity
	Representation

	Version, Kind, ListKind, Singular string
	ShortNames, Categories            []string
	Verbs                             []string
	UnconditionalUpdate               bool
	CreateOnUpdate                    bool
	OrphanByDefault                   bool
	ReturnDeleted                     bool
	Deprecated                        string
	Generation                        bool
	Columns                           []metav1.TableColumnDefinition
	Actions                           []Action
	Faces                             []*Face
	// Fields are the fields that field selectors can use. Indexed ones are topics of watches. A later Kind of the same
	// Identity has the same fields, in the same order, and perhaps more: objects that were read before do not have the
	// values of these.
	Fields []Field

	Name func(name string, prefix bool) []string
	// ValidateMetaTwice says that updates validate the metadata twice.
	ValidateMetaTwice bool
	// Followed says that the API server itself follows the objects, and promises what it can only keep if they are
	// cached.
	Followed bool
	// FreeFinalizers allows any finalizer without a domain.
	FreeFinalizers bool
	// Topology returns the schema with which server-side apply merges objects. It is nil for kinds that are in the
	// schema of the built-in ones.
	Topology func() (managedfields.TypeConverter, error)
	// Clean removes unknown fields from an object of a client, and returns errors for them. It is nil if decoding does
	// so.
	Clean         func(Object) (unknown []error, err error)
	Default       func(Object)
	Main          *RuleSet
	Views         map[string]*RuleSet
	Graceful      func(obj Object, requested *int64) (int64, bool)
	PrepareDelete func(Object)
	Held          func(Object) bool
	Changed       func(obj, old Object) bool
	Row           func(Object) Row
	Scale         *Scaling

	// Edition distinguishes the forms that different Kinds of one Identity made. It is 0 for built-in kinds.
	Edition uint32
	// Life ends when a watch would have to show objects differently from this Kind. It is nil for kinds that never
	// change.
	Life *Life
	// FieldLives end when a field, by its name in field selectors, can no longer be selected on. Fields of kinds that
	// never change have none.
	FieldLives map[string]*Life
}

// GroupVersion returns the group and version in which the kind is stored.
func (k *Kind) GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: k.Group, Version: k.Version}
}

// GroupVersionKind returns the group, version and kind.
func (k *Kind) GroupVersionKind() schema.GroupVersionKind { return k.GroupVersion().WithKind(k.Kind) }

// Define converts a description to a kind. It panics if the description contradicts its Go type, because that is a bug.
func Define[P Object](d Description[P]) *Kind {
	t := reflect.TypeFor[P]().Elem()
	k := &Kind{
		Identity: &Identity{
			Group: d.Group, Resource: d.Resource, Namespaced: d.Namespaced, Prefix: or(d.Prefix, d.Resource), TTL: d.TTL,
		},
		Version: d.Version, Kind: d.Kind, Fields: d.Fields,
		ListKind: or(d.ListKind, d.Kind+"List"), Singular: or(d.Singular, strings.ToLower(d.Kind)),
		ShortNames: d.ShortNames, Categories: d.Categories,
		UnconditionalUpdate: d.UnconditionalUpdate, CreateOnUpdate: d.CreateOnUpdate,
		OrphanByDefault: d.OrphanByDefault, ReturnDeleted: d.ReturnDeleted, Deprecated: d.Deprecated,
		Columns: d.Columns, Actions: d.Actions,
		Name: d.Name, FreeFinalizers: d.FreeFinalizers, ValidateMetaTwice: d.ValidateMetaTwice,
	}
	k.Verbs = slices.DeleteFunc(slices.Clone(allVerbs), func(v string) bool { return slices.Contains(d.NoVerbs, v) })
	k.Representation = newStructs(k, t, erased(d.Restore), erasedForms(d.Forms))
	_, hasSpec := t.FieldByName("Spec")
	k.Generation = (hasSpec || d.Changed != nil) && !d.NoGeneration
	k.Changed = func(o, old Object) bool { return hasSpec && !k.Same(o, old, "spec") }
	if d.Changed != nil {
		k.Changed = func(o, old Object) bool { return d.Changed(o.(P), old.(P)) }
	}
	d.defineFuncs(k)
	k.Main = d.Rules.erase()
	if d.Status != nil {
		k.Views["status"] = d.Status.erase()
		k.SeparateStatus(d.StatusOnCreate)
	}
	k.Main.Verbs = k.Verbs
	for name, v := range d.Views {
		k.Views[name] = v.Rules.erase()
		if v.Verbs != nil {
			k.Views[name].Verbs = v.Verbs
		}
	}
	k.Faces = []*Face{OwnFace(k, func() runtime.Object { return k.New() })}
	for _, s := range d.Also {
		k.Faces = append(k.Faces, face(k, s))
	}
	return k
}

// defineFuncs sets the kind's funcs to those of the description, without their Go type.
func (d *Description[P]) defineFuncs(k *Kind) {
	k.Views = map[string]*RuleSet{}
	if k.Name == nil {
		k.Name = subdomain
	}
	k.Default, k.PrepareDelete = erased(d.Default), erased(d.PrepareDelete)
	if k.Default == nil {
		k.Default = func(Object) {}
	}
	k.Held = func(o Object) bool { return d.Held != nil && d.Held(o.(P)) }
	if d.Graceful != nil {
		k.Graceful = func(o Object, s *int64) (int64, bool) { return d.Graceful(o.(P), s) }
	}
	if d.Row != nil {
		k.Row = func(o Object) Row { return d.Row(o.(P)) }
	}
	if d.Scale != nil {
		k.Scale = d.Scale.erase()
	}
}

// erased removes the Go type from a func; nil stays nil.
func erased[P Object](f func(P)) func(Object) {
	if f == nil {
		return nil
	}
	return func(o Object) { f(o.(P)) }
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
