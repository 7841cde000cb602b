package resource

import (
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Only this file decides which verbs a path offers. The API server, discovery and the OpenAPI documents use it.

var allVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// AllVerbs returns the verbs of a kind that supports all of them.
func AllVerbs() []string { return slices.Clone(allVerbs) }

// Place is what a path without a subresource names.
type Place int

const (
	// AllNamespaces is the collection of a namespaced kind's objects in all namespaces.
	AllNamespaces Place = iota
	// Collection is all objects of one namespace, or of a kind that has none.
	Collection
	// OneObject is the object with a name.
	OneObject
)

// Offers reports whether the kind supports a verb.
func (k *Kind) Offers(verb string) bool { return slices.Contains(k.Verbs, verb) }

// OffersAt reports whether the kind supports a verb at a place.
func (k *Kind) OffersAt(p Place, verb string) bool {
	switch verb {
	case "watch": // a single object is watched with the old prefix /watch
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

// Unstored reports whether the kind can only be created and is not stored, as reviews and bindings.
func (k *Kind) Unstored() bool { return len(k.Verbs) == 1 && k.Verbs[0] == "create" }

// Subresource is a path below an object: a view, the scale, or an action. At most one of View and Action is set; for
// the scale neither is.
type Subresource struct {
	Name   string
	Verbs  []string
	View   *RuleSet
	Action *Action
}

// scaleVerbs are the verbs of every scale.
var scaleVerbs = []string{"get", "patch", "update"}

// ScaleKind is the kind of the subresource scale.
var ScaleKind = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}

// Subresource returns the subresource with a name.
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

// Subresources returns all subresources: the views by name, the scale, the actions in their order.
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

// Offers reports whether the subresource supports a verb.
func (s Subresource) Offers(verb string) bool { return slices.Contains(s.Verbs, verb) }

// KindAs returns the kind of the subresource's body, if the object is requested as face f.
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

// Methods returns the HTTP methods of a connection. One with the verb delete is a proxy and has all methods. One with
// the verb create is a session, which WebSockets begin with GET. All others only have GET.
func (a *Action) Methods() []string {
	switch {
	case slices.Contains(a.Verbs, "delete"):
		return proxyMethods
	case slices.Contains(a.Verbs, "create"):
		return sessionMethods
	}
	return readMethods
}
