package resource

import (
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// This file alone knows which verbs a path offers: the API server serves by it, and discovery and the OpenAPI documents show it.

var allVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// AllVerbs are the verbs of a kind that leaves none out.
func AllVerbs() []string { return slices.Clone(allVerbs) }

// Place is what a path without a subresource names.
type Place int

const (
	// AllNamespaces is a collection of namespaced objects, whatever their namespace.
	AllNamespaces Place = iota
	// Collection is all objects of one namespace, or of a kind that has none.
	Collection
	// OneObject is the object of a name.
	OneObject
)

// Offers tells whether the kind has this verb.
func (k *Kind) Offers(verb string) bool { return slices.Contains(k.Verbs, verb) }

// OffersAt tells whether the kind has this verb at a place.
func (k *Kind) OffersAt(p Place, verb string) bool {
	switch verb {
	case "watch": // an object is watched under the old prefix /watch
	case "list":
		if p == OneObject {
			return false
		}
	case "create", "deletecollection":
		if p != Collection {
			return false
		}
	default:
		if p != OneObject {
			return false
		}
	}
	return k.Offers(verb)
}

// Unstored tells kinds that can only be posted: reviews and bindings.
func (k *Kind) Unstored() bool { return len(k.Verbs) == 1 && k.Verbs[0] == "create" }

// Subresource is a path below an object: a view, the scale, or an action. At most one of View and Action is set, and neither
// for the scale.
type Subresource struct {
	Name   string
	Verbs  []string
	View   *RuleSet
	Action *Action
}

// scaleVerbs are those of every scale.
var scaleVerbs = []string{"get", "patch", "update"}

// ScaleKind is what the subresource scale shows of any kind.
var ScaleKind = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}

// Subresource finds a subresource.
func (k *Kind) Subresource(name string) (s Subresource, ok bool) {
	if name == "scale" && k.Scale != nil {
		return Subresource{Name: name, Verbs: scaleVerbs}, true
	}
	for i := range k.Actions {
		if a := &k.Actions[i]; a.Name == name {
			return Subresource{Name: name, Verbs: a.Verbs, Action: a}, true
		}
	}
	if v, ok := k.Views[name]; ok {
		return Subresource{Name: name, Verbs: v.Verbs, View: v}, true
	}
	return Subresource{}, false
}

// Subresources are all of them: the views by name, the scale, the actions in their order.
func (k *Kind) Subresources() []Subresource {
	var names []string
	for name := range k.Views {
		names = append(names, name)
	}
	slices.Sort(names)
	if k.Scale != nil {
		names = append(names, "scale")
	}
	for _, a := range k.Actions {
		names = append(names, a.Name)
	}
	out := make([]Subresource, len(names))
	for i, name := range names {
		out[i], _ = k.Subresource(name)
	}
	return out
}

// Offers tells whether the subresource has this verb.
func (s Subresource) Offers(verb string) bool { return slices.Contains(s.Verbs, verb) }

// KindAs is the kind of what is read and written there, if the object is asked for as this face.
func (s Subresource) KindAs(f *Face) schema.GroupVersionKind {
	switch {
	case s.Action != nil:
		return s.Action.Body
	case s.View != nil:
		return f.GroupVersionKind
	}
	return ScaleKind
}

var (
	readMethods    = []string{http.MethodGet, http.MethodHead}
	sessionMethods = []string{http.MethodGet, http.MethodPost}
	proxyMethods   = []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodOptions, http.MethodHead, http.MethodPatch}
)

// Methods are the HTTP methods of an action that is a connection. What may be deleted is a proxy, which hands every request on;
// what may be created is a session, which WebSockets begin by GET; everything else is read.
func (a *Action) Methods() []string {
	switch {
	case slices.Contains(a.Verbs, "delete"):
		return proxyMethods
	case slices.Contains(a.Verbs, "create"):
		return sessionMethods
	}
	return readMethods
}
