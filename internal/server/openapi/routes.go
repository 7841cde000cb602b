package openapi

import (
	"reflect"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/resource"
)

// routes makes the paths of one face of a kind.
type routes struct {
	face    *resource.Face
	kind    *resource.Kind
	model   string // the schema of the face
	list    string // the schema of its lists
	idWords idWords
	out     []Path
}

// idWords are the names of a group version in operation IDs.
type idWords struct{ title, tag string }

func wordsFor(gv schema.GroupVersion) idWords {
	group := strings.TrimSuffix(gv.Group, ".k8s.io")
	if group == "" {
		group = "core"
	}
	parts := strings.FieldsFunc(group, func(r rune) bool { return r == '.' || r == '-' })
	for i, p := range parts {
		parts[i] = title(p)
	}
	name := strings.Join(parts, "")
	return idWords{title: name + title(gv.Version), tag: strings.ToLower(name[:1]) + name[1:] + "_" + gv.Version}
}

func title(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func groupPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}

// routesOf returns the paths of a face.
func routesOf(f *resource.Face, model, list string) []Path {
	r := &routes{face: f, kind: f.Of, model: model, list: list, idWords: wordsFor(f.GroupVersion())}
	base, scoped := groupPath(f.GroupVersion()), groupPath(f.GroupVersion())
	if r.kind.Namespaced {
		scoped += "/namespaces/{namespace}"
		r.add(base+"/"+f.Resource, r.listing("list", "ForAllNamespaces", resource.AllNamespaces))
	}
	r.collection(scoped + "/" + f.Resource)
	r.object(scoped + "/" + f.Resource + "/{name}")
	r.subresources(scoped + "/" + f.Resource + "/{name}/")
	if r.kind.Offers("watch") {
		r.watches(base, scoped)
	}
	return r.out
}

func (r *routes) add(path string, operations ...*Operation) {
	p := Path{Path: path, Parameters: []Parameter{}}
	for _, o := range operations {
		if o != nil {
			p.Operations = append(p.Operations, *o)
		}
	}
	if len(p.Operations) == 0 {
		return
	}
	if strings.Contains(path, "{name}") {
		p.Parameters = append(p.Parameters, objectName(r.face.Kind))
	}
	if strings.Contains(path, "{namespace}") {
		p.Parameters = append(p.Parameters, namespace)
	}
	if strings.Contains(path, "{path}") {
		p.Parameters = append(p.Parameters, rest)
	}
	if p.Operations[0].Produces[0] != anyType[0] {
		p.Parameters = append(p.Parameters, pretty)
	}
	r.out = append(r.out, p)
}

// id returns an operation ID from the verb, the group version and the resource.
func (r *routes) id(verb, infix, suffix string) string {
	if r.kind.Namespaced && suffix != "ForAllNamespaces" && suffix != "ListForAllNamespaces" {
		infix += "Namespaced"
	}
	return verb + r.idWords.title + infix + r.face.Kind + suffix
}

func (r *routes) operation(method, action, id, text string) *Operation {
	return &Operation{
		Method: method, ID: id, Tag: r.idWords.tag, Description: text, Produces: objectTypes,
		Extensions: []Extension{
			extension("x-kubernetes-action", action),
			extension(gvkExtension, gvkOf(r.face.GroupVersionKind)),
		},
	}
}

var (
	objectTypes = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor"}
	streamTypes = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor",
		"application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch", "application/cbor-seq"}
	patchTypes = []string{"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
		"application/apply-patch+yaml"}
	anyType  = []string{"*/*"}
	plain    = &Schema{Type: "string"}
	patch    = &Schema{Ref: name(reflect.TypeFor[metav1.Patch]())}
	status   = &Schema{Ref: name(reflect.TypeFor[metav1.Status]())}
	options  = &Schema{Ref: name(reflect.TypeFor[metav1.DeleteOptions]())}
	event    = &Schema{Ref: name(reflect.TypeFor[metav1.WatchEvent]())}
	apiLists = &Schema{Ref: name(reflect.TypeFor[metav1.APIResourceList]())}
)

// answers adds the responses with the given codes, and 401.
func (o *Operation) answers(s *Schema, codes ...string) *Operation {
	for _, c := range codes {
		text := map[string]string{"200": "OK", "201": "Created", "202": "Accepted"}[c]
		o.Answers = append(o.Answers, Answer{c, text, s})
	}
	o.Answers = append(o.Answers, Answer{Code: "401", Description: "Unauthorized"})
	return o
}

func (r *routes) listing(verb, suffix string, at resource.Place) *Operation {
	if !r.kind.OffersAt(at, "list") {
		return nil
	}
	o := r.operation("get", "list", r.id(verb, "", suffix), "list or watch objects of kind "+r.face.Kind)
	o.Parameters, o.Produces = query[metav1.ListOptions](), streamTypes
	return o.answers(&Schema{Ref: r.list}, "200")
}

func (r *routes) collection(path string) {
	r.add(path, r.listing("list", "", resource.Collection), r.creation(), r.deletionOfAll())
}

func (r *routes) creation() *Operation {
	if !r.kind.OffersAt(resource.Collection, "create") {
		return nil
	}
	o := r.operation("post", "post", r.id("create", "", ""), "create "+article(r.face.Kind))
	o.Parameters, o.Consumes = query[metav1.CreateOptions](), anyType
	o.Body, o.BodyRequired = &Schema{Ref: r.model}, true
	return o.answers(&Schema{Ref: r.model}, "200", "201", "202")
}

func article(kind string) string {
	if strings.ContainsRune("AEIOU", rune(kind[0])) {
		return "an " + kind
	}
	return "a " + kind
}

func (r *routes) deletionOfAll() *Operation {
	if !r.kind.OffersAt(resource.Collection, "deletecollection") {
		return nil
	}
	o := r.operation("delete", "deletecollection", r.id("delete", "Collection", ""), "delete collection of "+r.face.Kind)
	o.Parameters = union(without(query[metav1.ListOptions](), "watch", "allowWatchBookmarks"), query[metav1.DeleteOptions]())
	o.Consumes, o.Body = anyType, options
	return o.answers(status, "200")
}

func (r *routes) object(path string) {
	k := r.face.Kind
	var get, put, remove, change *Operation
	if r.kind.OffersAt(resource.OneObject, "get") {
		get = r.operation("get", "get", r.id("read", "", ""), "read the specified "+k).answers(&Schema{Ref: r.model}, "200")
	}
	if r.kind.OffersAt(resource.OneObject, "update") {
		put = r.replacing(r.id("replace", "", ""), "replace the specified "+k, r.model)
	}
	if r.kind.OffersAt(resource.OneObject, "patch") {
		change = r.patching(r.id("patch", "", ""), "partially update the specified "+k, r.model)
	}
	if r.kind.OffersAt(resource.OneObject, "delete") {
		remove = r.operation("delete", "delete", r.id("delete", "", ""), "delete "+article(k))
		remove.Parameters, remove.Consumes, remove.Body = query[metav1.DeleteOptions](), anyType, options
		answer := status
		if r.kind.ReturnDeleted {
			answer = &Schema{Ref: r.model}
		}
		remove.answers(answer, "200", "202")
	}
	r.add(path, get, put, remove, change)
}

func (r *routes) replacing(id, text, model string) *Operation {
	o := r.operation("put", "put", id, text)
	o.Parameters, o.Consumes = query[metav1.UpdateOptions](), anyType
	o.Body, o.BodyRequired = &Schema{Ref: model}, true
	return o.answers(&Schema{Ref: model}, "200", "201")
}

func (r *routes) patching(id, text, model string) *Operation {
	o := r.operation("patch", "patch", id, text)
	o.Parameters, o.Consumes = query[metav1.PatchOptions](), patchTypes
	o.Body, o.BodyRequired = patch, true
	return o.answers(&Schema{Ref: model}, "200", "201")
}

// subresources adds the views, the scale and the actions of a kind.
func (r *routes) subresources(prefix string) {
	for _, s := range r.kind.Subresources() {
		switch {
		case s.Action != nil:
			r.action(prefix+s.Name, s.Action)
		case s.View != nil:
			r.view(prefix+s.Name, s, r.model)
		default:
			r.view(prefix+s.Name, s, name(scaleType))
		}
	}
}

func (r *routes) view(path string, s resource.Subresource, model string) {
	var ops []*Operation
	suffix, what := title(s.Name), s.Name+" of the specified "+r.face.Kind
	if s.Offers("get") {
		ops = append(ops, r.operation("get", "get", r.id("read", "", suffix), "read "+what).answers(&Schema{Ref: model}, "200"))
	}
	if s.Offers("update") {
		ops = append(ops, r.replacing(r.id("replace", "", suffix), "replace "+what, model))
	}
	if s.Offers("patch") {
		ops = append(ops, r.patching(r.id("patch", "", suffix), "partially update "+what, model))
	}
	for _, o := range ops {
		o.Extensions[1] = extension(gvkExtension, gvkOf(s.KindAs(r.face)))
	}
	r.add(path, ops...)
}

func (r *routes) action(path string, a *resource.Action) {
	suffix := title(a.Name)
	gvk := extension(gvkExtension, gvkOf(a.Body))
	switch {
	case a.New != nil:
		o := r.operation("post", "post", r.id("create", "", suffix), "create "+a.Name+" of "+article(r.face.Kind))
		model := &Schema{Ref: name(reflect.TypeOf(a.New()).Elem())}
		o.Parameters, o.Consumes, o.Body, o.BodyRequired = query[metav1.CreateOptions](), anyType, model, true
		o.Extensions[1] = gvk
		r.add(path, o.answers(model, "200", "201", "202"))
	case a.Name == "log":
		o := r.operation("get", "get", r.id("read", "", suffix), "read log of the specified "+r.face.Kind)
		o.Parameters, o.Produces = query[corev1.PodLogOptions](), append([]string{"text/plain"}, objectTypes...)
		r.add(path, o.answers(plain, "200"))
	default:
		r.connection(path, suffix, a, gvk)
		if a.Name == "proxy" {
			r.connection(path+"/{path}", suffix+"WithPath", a, gvk)
		}
	}
}

// connection adds the methods of a subresource that streams.
func (r *routes) connection(path, suffix string, a *resource.Action, gvk Extension) {
	var ops []*Operation
	for _, m := range a.Methods() {
		m = strings.ToLower(m)
		o := r.operation(m, "connect", r.id("connect", title(m), suffix), "connect "+strings.ToUpper(m)+" requests to "+a.Name+" of "+r.face.Kind)
		if t, ok := connections[a.Body.Kind]; ok {
			o.Parameters = queryOf(t)
			if strings.HasSuffix(path, "{path}") {
				o.Parameters = without(o.Parameters, "path")
			}
		}
		o.Produces, o.Extensions[1] = anyType, gvk
		ops = append(ops, o.answers(plain, "200"))
	}
	r.add(path, ops...)
}

// watches adds the old paths for watches.
func (r *routes) watches(base, scoped string) {
	k := r.face.Kind
	watch := func(action, suffix, text string) *Operation {
		o := r.operation("get", action, r.id("watch", "", suffix), text+" deprecated: use the 'watch' parameter with a list operation instead.")
		o.Parameters, o.Produces = query[metav1.ListOptions](), streamTypes
		return o.answers(event, "200")
	}
	if r.kind.Namespaced {
		r.add(base+"/watch/"+r.face.Resource, watch("watchlist", "ListForAllNamespaces", "watch individual changes to a list of "+k+"."))
	}
	below := base + "/watch" + strings.TrimPrefix(scoped, base) + "/" + r.face.Resource
	r.add(below, watch("watchlist", "List", "watch individual changes to a list of "+k+"."))
	r.add(below+"/{name}", watch("watch", "", "watch changes to an object of kind "+k+"."))
}

// rootOf returns the path of a group version's resource list.
func rootOf(gv schema.GroupVersion) Path {
	w := wordsFor(gv)
	o := &Operation{Method: "get", ID: "get" + w.title + "APIResources", Tag: w.tag, Description: "get available resources", Produces: objectTypes}
	return Path{Path: groupPath(gv) + "/", Parameters: []Parameter{}, Operations: []Operation{*o.answers(apiLists, "200")}}
}

var scaleType = reflect.TypeFor[autoscalingv1.Scale]()
