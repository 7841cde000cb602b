package openapi

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/millrace/millrace/server/resource"
)

// document is what is to be described together: the kinds of one group version, or all.
type document struct {
	faces   []*resource.Face
	version string
	// own gives the schemas of kinds that bring one.
	own func(*resource.Face) *Schema
}

// write writes the document. Schemas are made one at a time, after the paths.
func (d *document) write(w writer) error {
	if err := w.begin(d.version); err != nil {
		return err
	}
	if err := d.writePaths(w); err != nil {
		return err
	}
	if err := d.writeSchemas(w); err != nil {
		return err
	}
	return w.end()
}

func (d *document) writePaths(w writer) error {
	for _, gv := range groupVersions(d.faces) {
		root := rootOf(gv)
		if err := w.path(&root); err != nil {
			return err
		}
		for _, f := range d.faces {
			if f.GroupVersion() != gv {
				continue
			}
			model, list := d.models(f)
			for _, p := range routesOf(f, model, list) {
				if err := w.path(&p); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func groupVersions(faces []*resource.Face) []schema.GroupVersion {
	var out []schema.GroupVersion
	for _, f := range faces {
		if !slices.Contains(out, f.GroupVersion()) {
			out = append(out, f.GroupVersion())
		}
	}
	return out
}

// models are the names of the schemas of a face and of its lists.
func (d *document) models(f *resource.Face) (model, list string) {
	if f.Of.Custom {
		parts := strings.Split(f.Group, ".")
		slices.Reverse(parts)
		prefix := strings.Join(parts, ".") + "." + f.Version + "."
		return prefix + f.Kind, prefix + f.ListKind
	}
	t := goType(f)
	model = name(t)
	return model, strings.TrimSuffix(model, f.Kind) + f.ListKind
}

func goType(f *resource.Face) reflect.Type { return reflect.TypeOf(f.New()).Elem() }

// listType is the Go type of a face's lists, if there is one.
func listType(f *resource.Face) reflect.Type {
	o, err := scheme.Scheme.New(f.GroupVersion().WithKind(f.ListKind))
	if err != nil {
		return nil
	}
	return reflect.TypeOf(o).Elem()
}

func (d *document) writeSchemas(w writer) error {
	found := map[string]reflect.Type{}
	own := map[string]*Schema{}
	for _, t := range []reflect.Type{
		reflect.TypeFor[metav1.Patch](), reflect.TypeFor[metav1.Status](), reflect.TypeFor[metav1.DeleteOptions](),
		reflect.TypeFor[metav1.WatchEvent](), reflect.TypeFor[metav1.APIResourceList](),
	} {
		reach(found, t)
	}
	for _, f := range d.faces {
		d.collect(f, found, own)
	}
	all := append(slices.Collect(maps.Keys(found)), slices.Collect(maps.Keys(own))...)
	slices.Sort(all)
	types := newTypes(d.faces)
	for _, name := range slices.Compact(all) {
		s := own[name]
		if s == nil {
			s = types.define(found[name])
		}
		if err := w.schema(name, s); err != nil {
			return err
		}
	}
	return nil
}

// collect adds what a face needs.
func (d *document) collect(f *resource.Face, found map[string]reflect.Type, own map[string]*Schema) {
	model, list := d.models(f)
	if f.Of.Custom {
		own[model] = complete(d.schemaOf(f), f)
		reach(found, reflect.TypeFor[metav1.ObjectMeta]())
	}
	if own[model] == nil {
		reach(found, goType(f))
	}
	if f.Of.Offers("list") {
		if t := listType(f); t != nil && own[model] == nil {
			reach(found, t)
		} else {
			own[list] = listOf(f, model)
			reach(found, reflect.TypeFor[metav1.ListMeta]())
		}
	}
	for _, a := range f.Of.Actions {
		if a.New != nil {
			reach(found, reflect.TypeOf(a.New()).Elem())
		}
	}
	if f.Of.Scale != nil {
		reach(found, scaleType)
	}
}

// schemaOf is the schema that a kind brings; that of any object if it brings none.
func (d *document) schemaOf(f *resource.Face) *Schema {
	if d.own != nil {
		if s := d.own(f); s != nil {
			return s
		}
	}
	return &Schema{Type: "object", Extensions: []Extension{extension("x-kubernetes-preserve-unknown-fields", true)}}
}

// complete adds to a kind's own schema what every object has.
func complete(s *Schema, f *resource.Face) *Schema {
	out := *s
	docs := describe(reflect.TypeFor[metav1.TypeMeta]())
	out.Properties = slices.DeleteFunc(slices.Clone(s.Properties), func(p Property) bool {
		return p.Name == "apiVersion" || p.Name == "kind" || p.Name == "metadata"
	})
	out.Properties = append(out.Properties,
		Property{"apiVersion", Schema{Type: "string", Description: docs["apiVersion"]}},
		Property{"kind", Schema{Type: "string", Description: docs["kind"]}},
		Property{"metadata", Schema{Ref: name(reflect.TypeFor[metav1.ObjectMeta]()), Description: describe(listMetaHolder)["metadata"]}})
	slices.SortFunc(out.Properties, func(a, b Property) int { return cmp.Compare(a.Name, b.Name) })
	out.Extensions = append(slices.Clone(s.Extensions), kindsExtension([]schema.GroupVersionKind{f.GroupVersionKind}))
	return &out
}

// listMetaHolder has metadata like any object, and says so.
var listMetaHolder = reflect.TypeFor[metav1.PartialObjectMetadata]()

func listOf(f *resource.Face, model string) *Schema {
	docs := describe(reflect.TypeFor[metav1.TypeMeta]())
	s := &Schema{
		Type: "object", Description: f.ListKind + " is a list of " + f.Kind, Required: []string{"items"},
		Properties: []Property{
			{"apiVersion", Schema{Type: "string", Description: docs["apiVersion"]}},
			{"items", Schema{Type: "array", Description: "List of " + f.Of.Resource, Items: &Schema{Ref: model}}},
			{"kind", Schema{Type: "string", Description: docs["kind"]}},
			{"metadata", Schema{Ref: name(reflect.TypeFor[metav1.ListMeta]())}},
		},
	}
	s.Extensions = []Extension{kindsExtension([]schema.GroupVersionKind{f.GroupVersion().WithKind(f.ListKind)})}
	return s
}
