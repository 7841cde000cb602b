package custom

import (
	"sync"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// topology tells how server-side apply merges the objects of a definition, in all its versions.
type topology = func() (managedfields.TypeConverter, error)

// topology is made when something is first tracked.
func (d *definition) topology(kind string) topology {
	return sync.OnceValues(func() (managedfields.TypeConverter, error) {
		base, err := common()
		if err != nil {
			return nil, err
		}
		out := &typesByKind{TypeConverter: base.none, types: map[schema.GroupVersionKind]typed.ParseableType{}}
		parser := &typed.Parser{Schema: smd.Schema{Types: base.types[:len(base.types):len(base.types)]}}
		for name, v := range d.versions {
			tree, err := v.schema.Tree()
			if err != nil {
				return nil, err
			}
			parser.Schema.Types = append(parser.Schema.Types, smd.TypeDef{Name: name, Atom: rootType(tree)})
		}
		for name := range d.versions {
			out.types[schema.GroupVersionKind{Group: d.identity.Group, Version: name, Kind: kind}] = parser.Type(name)
		}
		return out, nil
	})
}

// typesByKind has the types of the versions. What it does not know, the converter without any types refuses, in the
// library's words.
type typesByKind struct {
	managedfields.TypeConverter
	types map[schema.GroupVersionKind]typed.ParseableType
}

// ObjectToTyped implements managedfields.TypeConverter.
func (tbk *typesByKind) ObjectToTyped(o runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	t, ok := tbk.types[o.GetObjectKind().GroupVersionKind()]
	if !ok {
		return tbk.TypeConverter.ObjectToTyped(o, options...)
	}
	if u, ok := o.(*unstructured.Unstructured); ok {
		return t.FromUnstructured(u.UnstructuredContent(), options...)
	}
	return t.FromStructured(o, options...)
}

// commonTypes are those that the objects of all definitions have.
type commonTypes struct {
	types []smd.TypeDef // metadata, and what is not known
	none  managedfields.TypeConverter
}

var common = sync.OnceValues(func() (*commonTypes, error) {
	const preserveUnknown = false
	none, err := managedfields.NewTypeConverter(nil, preserveUnknown)
	if err != nil {
		return nil, err
	}
	types, err := schemaconv.ToSchemaFromOpenAPI(map[string]*spec.Schema{metadataModel: metadata()}, preserveUnknown)
	if err != nil {
		return nil, err
	}
	return &commonTypes{types.Types, none}, nil
})

// The names of types, as the library has them.
const (
	// metadataModel is what all objects have in common. It stands by itself: what an object lets pass that has it does
	// not hold for the metadata.
	metadataModel = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	unknownModel  = "__untyped_deduced_" // owned by its parts, as far as its value has any
	untypedModel  = "__untyped_atomic_"
)

func named(model string) smd.TypeRef { return smd.TypeRef{NamedType: &model} }

// typer makes the library's types of structural schemas. The library has a way by OpenAPI for that, which takes three
// times as long.
type typer struct {
	// preserve says that unknown fields are let pass here, and so below.
	preserve bool
}

// rootType is the type of objects of a version, which may have no schema.
func rootType(tree *structural.Structural) smd.Atom {
	if tree == nil {
		tree = &structural.Structural{Generic: structural.Generic{Type: "object"}, Extensions: structural.Extensions{XPreserveUnknownFields: true}}
	}
	const embedded = true
	return typer{}.atom(tree, embedded)
}

func (t typer) ref(s *structural.Structural) smd.TypeRef {
	return smd.TypeRef{Inlined: t.atom(s, s.XEmbeddedResource), Nullable: s.Nullable}
}

// atom is the type of a value. An embedded one is an object with a kind and metadata.
func (t typer) atom(s *structural.Structural, embedded bool) smd.Atom {
	t.preserve = t.preserve || s.XPreserveUnknownFields
	switch s.Type {
	case "object":
		return smd.Atom{Map: t.object(s, embedded)}
	case "array":
		return smd.Atom{List: t.list(s)}
	case "":
		return smd.Atom{Scalar: new(smd.Untyped), List: t.list(s), Map: t.object(s, embedded)}
	case "integer", "number":
		return smd.Atom{Scalar: new(smd.Numeric)}
	case "boolean":
		return smd.Atom{Scalar: new(smd.Boolean)}
	}
	if v := s.ValueValidation; v != nil && v.Format != "" && v.Format != "byte" {
		return smd.Atom{Scalar: new(smd.Untyped)}
	}
	return smd.Atom{Scalar: new(smd.String)}
}

func (t typer) object(s *structural.Structural, embedded bool) *smd.Map {
	out := &smd.Map{Fields: make([]smd.StructField, 0, len(s.Properties)+len(ofResources))}
	if of := s.XMapType; of != nil && *of == "atomic" {
		out.ElementRelationship = smd.Atomic
	} else if of != nil {
		out.ElementRelationship = smd.Separable
	}
	for name, p := range s.Properties {
		if !embedded || ofResources[name] == nil {
			out.Fields = append(out.Fields, smd.StructField{Name: name, Type: t.ref(&p), Default: p.Default.Object})
		}
	}
	if embedded {
		for name, of := range ofResources {
			out.Fields = append(out.Fields, smd.StructField{Name: name, Type: of()})
		}
	}
	switch more := s.AdditionalProperties; {
	case more == nil && (t.preserve || len(out.Fields) == 0), more != nil && more.Structural == nil && more.Bool:
		out.ElementType = named(unknownModel)
	case more != nil && more.Structural != nil:
		out.ElementType = t.ref(more.Structural)
	}
	return out
}

// ofResources are the fields that every object has.
var ofResources = map[string]func() smd.TypeRef{
	"apiVersion": textType,
	"kind":       textType,
	"metadata":   func() smd.TypeRef { return named(metadataModel) },
}

func textType() smd.TypeRef { return smd.TypeRef{Inlined: smd.Atom{Scalar: new(smd.String)}} }

func (t typer) list(s *structural.Structural) *smd.List {
	out := &smd.List{ElementRelationship: smd.Atomic, ElementType: named(untypedModel)}
	if s.Items != nil {
		out.ElementType = t.ref(s.Items)
	}
	if of := s.XListType; of != nil && *of != "atomic" {
		out.ElementRelationship = smd.Associative
		if *of == "map" {
			out.Keys = s.XListMapKeys
		}
	}
	return out
}

func objectOf(properties map[string]spec.Schema) *spec.Schema {
	return &spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: properties}}
}

// metadata is the schema of all objects' metadata.
func metadata() *spec.Schema {
	text, number := *spec.StringProperty(), *spec.Int64Property()
	finalizers := spec.ArrayProperty(&text)
	finalizers.AddExtension("x-kubernetes-list-type", "set")
	owner := objectOf(map[string]spec.Schema{
		"apiVersion": text, "kind": text, "name": text, "uid": text, "controller": *spec.BooleanProperty(), "blockOwnerDeletion": *spec.BooleanProperty(),
	})
	owner.AddExtension("x-kubernetes-map-type", "atomic")
	owners := spec.ArrayProperty(owner)
	owners.AddExtension("x-kubernetes-list-type", "map")
	owners.AddExtension("x-kubernetes-list-map-keys", []any{"uid"})
	entry := objectOf(nil)
	entry.AddExtension("x-kubernetes-preserve-unknown-fields", true)
	entries := spec.ArrayProperty(entry)
	entries.AddExtension("x-kubernetes-list-type", "atomic")
	return objectOf(map[string]spec.Schema{
		"name": text, "generateName": text, "namespace": text, "selfLink": text, "uid": text, "resourceVersion": text,
		"generation": number, "deletionGracePeriodSeconds": number, "creationTimestamp": text, "deletionTimestamp": text,
		"labels": *spec.MapProperty(&text), "annotations": *spec.MapProperty(&text),
		"finalizers": *finalizers, "ownerReferences": *owners, "managedFields": *entries,
	})
}
