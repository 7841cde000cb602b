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

// document is what one document describes: the kinds of one group version, or all.
type document struct {
	faces   []*resource.Face
	version string
	// own returns the schemas of kinds that have their own.
	own func(*resource.Face) *Schema
	// foreign is what other servers say of themselves.
	foreign []Foreign
}

// write writes the document: first the paths, then the schemas one at a time.
func (d *document) write(w writer) error {
	if err := w.begin(d.version); err != nil {
		return err
	}
	paths, err := d.writePaths(w)
	if err != nil {
		return err
	}
	all := d.schemas(w.version2())
	var others fitted
	if len(d.foreign) > 0 {
		others = fit(d.foreign, paths, all)
	}
	if err := w.foreignPaths(others.paths); err != nil {
		return err
	}
	for _, name := range all.names {
		if err := w.schema(name, all.define(name)); err != nil {
			return err
		}
	}
	if err := w.foreignSchemas(others.schemas); err != nil {
		return err
	}
	return w.end()
}

// writePaths writes the paths of the kinds, and returns their names.
func (d *document) writePaths(w writer) (map[string]bool, error) {
	written := map[string]bool{}
	write := func(p *Path) error {
		written[p.Path] = true
		return w.path(p)
	}
	for _, gv := range groupVersions(d.faces) {
		root := rootOf(gv)
		if err := write(&root); err != nil {
			return nil, err
		}
		for _, f := range d.faces {
			if f.GroupVersion() != gv {
				continue
			}
			model, list := d.models(f)
			for _, p := range routesOf(f, model, list) {
				if err := write(&p); err != nil {
					return nil, err
				}
			}
		}
	}
	return written, nil
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

// models returns the names of the schemas of a face and of its lists.
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

// listType returns the Go type of a face's lists, or nil.
func listType(f *resource.Face) reflect.Type {
	o, err := scheme.Scheme.New(f.GroupVersion().WithKind(f.ListKind))
	if err != nil {
		return nil
	}
	return reflect.TypeOf(o).Elem()
}

// schemas are those that a document needs, by their names.
type schemas struct {
	names []string // in order
	found map[string]reflect.Type
	own   map[string]*Schema
	types *types
}

func (s *schemas) define(name string) *Schema {
	if own := s.own[name]; own != nil {
		return own
	}
	return s.types.define(s.found[name])
}

func (d *document) schemas(version2 bool) *schemas {
	s := &schemas{found: map[string]reflect.Type{}, own: map[string]*Schema{}, types: newTypes(d.faces)}
	for _, t := range []reflect.Type{
		reflect.TypeFor[metav1.Patch](), reflect.TypeFor[metav1.Status](), reflect.TypeFor[metav1.DeleteOptions](),
		reflect.TypeFor[metav1.WatchEvent](), reflect.TypeFor[metav1.APIResourceList](),
	} {
		reach(s.found, t)
	}
	for _, f := range d.faces {
		d.collect(f, s.found, s.own, version2)
	}
	all := append(slices.Collect(maps.Keys(s.found)), slices.Collect(maps.Keys(s.own))...)
	slices.Sort(all)
	s.names = slices.Compact(all)
	return s
}

// collect adds the types and schemas that a face needs.
func (d *document) collect(f *resource.Face, found map[string]reflect.Type, own map[string]*Schema, version2 bool) {
	model, list := d.models(f)
	if f.Of.Custom {
		own[model] = d.describeOwn(f, version2)
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

// schemaOf returns a kind's own schema; if it has none, that of any object.
func (d *document) schemaOf(f *resource.Face) *Schema {
	if d.own != nil {
		if s := d.own(f); s != nil {
			return s
		}
	}
	return &Schema{Type: "object", Extensions: []Extension{extension("x-kubernetes-preserve-unknown-fields", true)}}
}

// describeOwn is the schema of a kind that brings one, with what every object has.
func (d *document) describeOwn(f *resource.Face, version2 bool) *Schema {
	s := d.schemaOf(f)
	switch {
	case version2 && s.keepsUnknown():
		// Clients of version 2 would take the fields of every object for the only ones, if they were named.
		return identify(&Schema{Type: "object"}, f)
	case version2:
		s = forVersion2(s)
	}
	return complete(s, f)
}

// complete adds metadata, kind and apiVersion to a kind's own schema.
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
	return identify(&out, f)
}

// identify names the kind that a schema is of.
func identify(s *Schema, f *resource.Face) *Schema {
	s.Extensions = append(slices.Clone(s.Extensions), kindsExtension([]schema.GroupVersionKind{f.GroupVersionKind}))
	return s
}

// listMetaHolder is a type with metadata, from whose documentation the descriptions are taken.
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
