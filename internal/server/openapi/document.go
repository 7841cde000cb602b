package openapi

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/millrace/millrace/internal/server/resource"
)

// document is what one document describes: the kinds of one group version, or all.
type document struct {
	faces   []*resource.Face
	plain   []plainPath
	version string
	// own returns the schemas of kinds that have their own.
	own func(*resource.Face) *Schema
	// foreign is what other servers say of themselves.
	foreign []Foreign
}

// section is a part of a document.
type section struct {
	// key says what the section depends on; without one it depends on the whole document.
	key sectionKey
	// schemas says that a schema has been written before.
	schemas bool
	write   func(writer) error
}

// sectionKey names a section. Sections of version 2 with the same key are the same.
type sectionKey struct {
	part string
	// of is the custom kind that the section describes; nil: those that are not custom.
	of *resource.Face
}

// write writes the document, one section after the other.
func (d *document) write(w writer) error {
	for _, s := range d.sections(w.version2()) {
		if err := s.write(w); err != nil {
			return err
		}
	}
	return nil
}

// sections are first those of the paths, then those of the schemas. Custom kinds come after all others, and each has
// sections of its own.
func (d *document) sections(version2 bool) []section {
	all, roots := d.schemas(version2), d.roots()
	others := sync.OnceValue(func() fitted { return fit(d.foreign, d.paths(roots), all) })
	var builtin, custom []*resource.Face
	for _, f := range d.faces {
		if f.Of.Custom {
			custom = append(custom, f)
		} else {
			builtin = append(builtin, f)
		}
	}
	out := []section{{key: sectionKey{part: "paths"}, write: func(w writer) error {
		if err := w.begin(d.version); err != nil {
			return err
		}
		for i := range d.plain {
			if err := w.path(&d.plain[i].Path); err != nil {
				return err
			}
		}
		return d.writePaths(w, roots, builtin...)
	}}}
	for _, f := range custom {
		key := sectionKey{"paths", f}
		if roots[f] {
			key.part = "paths, with the group version's"
		}
		out = append(out, section{key: key, write: func(w writer) error { return d.writePaths(w, roots, f) }})
	}
	out = append(out,
		section{write: func(w writer) error { return w.foreignPaths(others().paths) }},
		section{key: sectionKey{part: fmt.Sprint("schemas, types: ", len(all.found))}, write: func(w writer) error { return all.write(w, nil) }})
	for _, f := range custom {
		out = append(out, section{key: sectionKey{"schemas", f}, schemas: true, write: func(w writer) error { return all.write(w, f) }})
	}
	return append(out, section{schemas: true, write: func(w writer) error {
		if err := w.foreignSchemas(others().schemas); err != nil {
			return err
		}
		return w.end()
	}})
}

// roots are the faces that are the first ones of their group versions.
func (d *document) roots() map[*resource.Face]bool {
	seen, out := map[schema.GroupVersion]bool{}, map[*resource.Face]bool{}
	for _, f := range d.faces {
		if gv := f.GroupVersion(); !seen[gv] {
			seen[gv], out[f] = true, true
		}
	}
	return out
}

func (d *document) writePaths(w writer, roots map[*resource.Face]bool, faces ...*resource.Face) error {
	for _, f := range faces {
		for _, p := range d.pathsOf(f, roots[f]) {
			if err := w.path(&p); err != nil {
				return err
			}
		}
	}
	return nil
}

// pathsOf are the paths of a face, after that of its group version if that is wanted.
func (d *document) pathsOf(f *resource.Face, root bool) []Path {
	model, list := d.models(f)
	all := routesOf(f, model, list)
	if !root {
		return all
	}
	return append([]Path{rootOf(f.GroupVersion())}, all...)
}

// paths are the names of all paths.
func (d *document) paths(roots map[*resource.Face]bool) map[string]bool {
	all := map[string]bool{}
	for i := range d.plain {
		all[d.plain[i].Path.Path] = true
	}
	for _, f := range d.faces {
		for _, p := range d.pathsOf(f, roots[f]) {
			all[p.Path] = true
		}
	}
	return all
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
	found map[string]reflect.Type
	own   map[string]func() *Schema // those that are not made from Go types
	// of are the names of a custom kind's own schemas; those of all others have the key nil.
	of    map[*resource.Face][]string
	types func() *types
}

// add adds a schema that is not made from a Go type.
func (s *schemas) add(f *resource.Face, name string, make func() *Schema) {
	s.own[name] = make
	if !f.Of.Custom {
		f = nil
	}
	s.of[f] = append(s.of[f], name)
}

func (s *schemas) has(name string) bool {
	return s.own[name] != nil || s.found[name] != nil
}

func (s *schemas) define(name string) *Schema {
	if own := s.own[name]; own != nil {
		return own()
	}
	return s.types().define(s.found[name])
}

// write writes the schemas of a custom kind or, without one, all others, in the order of their names.
func (s *schemas) write(w writer, of *resource.Face) error {
	all := slices.Clone(s.of[of])
	if of == nil {
		all = slices.AppendSeq(all, maps.Keys(s.found))
	}
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		if err := w.schema(name, s.define(name)); err != nil {
			return err
		}
	}
	return nil
}

// usedByKinds are the types that the paths of every kind use.
var usedByKinds = []reflect.Type{
	reflect.TypeFor[metav1.Patch](), reflect.TypeFor[metav1.Status](), reflect.TypeFor[metav1.DeleteOptions](),
	reflect.TypeFor[metav1.WatchEvent](), reflect.TypeFor[metav1.APIResourceList](),
}

func (d *document) schemas(version2 bool) *schemas {
	s := &schemas{found: map[string]reflect.Type{}, own: map[string]func() *Schema{}, of: map[*resource.Face][]string{}}
	s.types = sync.OnceValue(func() *types { return newTypes(d.faces) })
	if len(d.faces) > 0 {
		for _, t := range usedByKinds {
			reach(s.found, t)
		}
	}
	for i := range d.plain {
		if t := d.plain[i].answer; t != nil {
			reach(s.found, t)
		}
	}
	for _, f := range d.faces {
		d.collect(f, s, version2)
	}
	return s
}

// collect adds the types and schemas that a face needs.
func (d *document) collect(f *resource.Face, s *schemas, version2 bool) {
	model, list := d.models(f)
	if f.Of.Custom {
		s.add(f, model, func() *Schema { return d.describeOwn(f, version2) })
		reach(s.found, reflect.TypeFor[metav1.ObjectMeta]())
	} else {
		reach(s.found, goType(f))
	}
	if f.Of.Offers("list") {
		if t := listType(f); t != nil && !f.Of.Custom {
			reach(s.found, t)
		} else {
			s.add(f, list, func() *Schema { return listOf(f, model) })
			reach(s.found, reflect.TypeFor[metav1.ListMeta]())
		}
	}
	for _, a := range f.Of.Actions {
		if a.New != nil {
			reach(s.found, reflect.TypeOf(a.New()).Elem())
		}
	}
	if f.Of.Scale != nil {
		reach(s.found, scaleType)
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
