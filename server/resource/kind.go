package resource

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/server/resource/alike"
)

// Kind is a defined kind: a Description without its Go type. It never changes after Define.
type Kind struct {
	Group, Version, Kind, ListKind string
	Resource, Singular             string
	ShortNames, Categories         []string
	Namespaced                     bool
	Prefix                         string
	TTL                            time.Duration
	Verbs                          []string
	UnconditionalUpdate            bool
	CreateOnUpdate                 bool
	OrphanByDefault                bool
	ReturnDeleted                  bool
	Deprecated                     string
	Generation                     bool
	Fields                         []Field
	Columns                        []metav1.TableColumnDefinition
	Actions                        []Action
	Faces                          []*Face

	New  func() Object
	Name func(name string, prefix bool) []string
	// MetaAgain says that updates look at all of the metadata twice.
	MetaAgain bool
	// FreeFinalizers lets finalizers without a domain have any name.
	FreeFinalizers bool
	Default        func(Object)
	Restore        func(Object)
	Restores       bool // Restore does something: the stored bytes alone are not the object
	Main           *RuleSet
	Views          map[string]*RuleSet
	Graceful       func(obj Object, requested *int64) (int64, bool)
	PrepareDelete  func(Object)
	Held           func(Object) bool
	Changed        func(obj, old Object) bool
	Row            func(Object) Row
	Scale          *Scaling
	Codec          Codec

	goType reflect.Type
	paths  []fieldPath
}

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

// Scaling is a Scale without its Go type.
type Scaling struct {
	Get func(Object) *autoscalingv1.Scale
	Set func(Object, int32)
}

// GroupVersion is the group and version in which the kind is stored.
func (k *Kind) GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: k.Group, Version: k.Version}
}

// GroupVersionKind names the kind in full.
func (k *Kind) GroupVersionKind() schema.GroupVersionKind { return k.GroupVersion().WithKind(k.Kind) }

// GroupResource is the name that errors and metrics use.
func (k *Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Resource}
}

// GoType is the struct that holds an object of this kind.
func (k *Kind) GoType() reflect.Type { return k.goType }

// Offers tells whether the kind has this verb.
func (k *Kind) Offers(verb string) bool { return slices.Contains(k.Verbs, verb) }

// Key is where an object is stored below the root.
func (k *Kind) Key(namespace, name string) string {
	if k.Namespaced {
		return k.Prefix + "/" + namespace + "/" + name
	}
	return k.Prefix + "/" + name
}

var allVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// Define turns a description into a kind. It panics when the description contradicts its Go type: that is a mistake in
// the program.
func Define[P Object](d Description[P]) *Kind {
	t := reflect.TypeFor[P]().Elem()
	newP := func() P { return reflect.New(t).Interface().(P) }
	k := &Kind{
		Group: d.Group, Version: d.Version, Kind: d.Kind, Resource: d.Resource,
		ListKind: or(d.ListKind, d.Kind+"List"), Singular: or(d.Singular, strings.ToLower(d.Kind)),
		ShortNames: d.ShortNames, Categories: d.Categories, Namespaced: d.Namespaced,
		Prefix: or(d.Prefix, d.Resource), TTL: d.TTL,
		UnconditionalUpdate: d.UnconditionalUpdate, CreateOnUpdate: d.CreateOnUpdate,
		OrphanByDefault: d.OrphanByDefault, ReturnDeleted: d.ReturnDeleted, Deprecated: d.Deprecated,
		Fields: d.Fields, Columns: d.Columns, Actions: d.Actions, goType: t,
		New:  func() Object { return newP() },
		Name: d.Name, FreeFinalizers: d.FreeFinalizers, MetaAgain: d.MetaAgain,
		Default: func(Object) {},
		Restore: func(Object) {},
		Held:    func(Object) bool { return false },
	}
	k.Verbs = slices.DeleteFunc(slices.Clone(allVerbs), func(v string) bool { return slices.Contains(d.NoVerbs, v) })
	_, hasSpec := t.FieldByName("Spec")
	k.Generation = (hasSpec || d.Changed != nil) && !d.NoGeneration
	k.Changed = func(o, old Object) bool {
		return hasSpec && !alike.Values(SpecOf(o), SpecOf(old))
	}
	if d.Changed != nil {
		k.Changed = func(o, old Object) bool { return d.Changed(o.(P), old.(P)) }
	}
	if k.Name == nil {
		k.Name = subdomain
	}
	if d.Default != nil {
		k.Default = func(o Object) { d.Default(o.(P)) }
	}
	if d.Restore != nil {
		k.Restore, k.Restores = func(o Object) { d.Restore(o.(P)) }, true
	}
	if d.Held != nil {
		k.Held = func(o Object) bool { return d.Held(o.(P)) }
	}
	if d.Graceful != nil {
		k.Graceful = func(o Object, s *int64) (int64, bool) { return d.Graceful(o.(P), s) }
	}
	if d.PrepareDelete != nil {
		k.PrepareDelete = func(o Object) { d.PrepareDelete(o.(P)) }
	}
	if d.Row != nil {
		k.Row = func(o Object) Row { return d.Row(o.(P)) }
	}
	if d.Scale != nil {
		k.Scale = d.Scale.erase()
	}
	k.defineViews(t, d.Rules.erase(), d.Status != nil, d.StatusOnCreate)
	if d.Status != nil {
		k.Views["status"] = d.Status.erase().keepingAllBut("Status", t)
	}
	for name, v := range d.Views {
		k.Views[name] = v.Rules.erase()
		if v.Verbs != nil {
			k.Views[name].Verbs = v.Verbs
		}
	}
	k.defineFaces(func() runtime.Object { return newP() })
	for _, s := range d.Also {
		k.Faces = append(k.Faces, face(k, s))
	}
	k.paths = compileFields(t, d.Fields)
	k.Codec = codecFor(k)
	return k
}

func (k *Kind) defineViews(t reflect.Type, main *RuleSet, hasStatus, onCreate bool) {
	if hasStatus {
		main = main.leavingAlone("Status", t, onCreate)
	}
	main.Verbs = k.Verbs
	k.Main, k.Views = main, map[string]*RuleSet{}
}

func (k *Kind) defineFaces(newObject func() runtime.Object) {
	k.Faces = []*Face{{GroupVersionKind: k.GroupVersionKind(), ListKind: k.ListKind, Resource: k.Resource, Of: k, New: newObject}}
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

func (s *Scale[P]) erase() *Scaling {
	return &Scaling{
		Set: func(o Object, n int32) { *s.Replicas(o.(P)) = n },
		Get: func(o Object) *autoscalingv1.Scale {
			p := o.(P)
			return &autoscalingv1.Scale{
				TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
				ObjectMeta: metav1.ObjectMeta{
					Name: p.GetName(), Namespace: p.GetNamespace(), UID: p.GetUID(),
					ResourceVersion: p.GetResourceVersion(), CreationTimestamp: p.GetCreationTimestamp(),
				},
				Spec:   autoscalingv1.ScaleSpec{Replicas: *s.Replicas(o.DeepCopyObject().(P))},
				Status: autoscalingv1.ScaleStatus{Replicas: s.Status(p), Selector: s.Selector(p)},
			}
		},
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

type callKey struct{}

// Call is what rules may know of the request they serve.
type Call struct {
	User   string
	UID    string
	Groups []string
	Extra  map[string][]string
	// Face is the group and version that the caller speaks.
	Face schema.GroupVersion
	// DryRun says that nothing will be kept.
	DryRun bool
	// AllowPrivileged says that the server lets containers run privileged.
	AllowPrivileged bool
}

// WithCall and CallFrom carry a Call in a context.
func WithCall(ctx context.Context, c Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallFrom returns the zero Call if there is none.
func CallFrom(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c
}

// NoResource is the name of nothing, for errors that are not about a resource.
var NoResource schema.GroupResource
