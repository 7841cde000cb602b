package openapi

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/millrace/millrace/internal/gotypes"
	"github.com/millrace/millrace/internal/server/resource"
)

// types makes schemas from Go types.
type types struct {
	facts *facts
	// kinds are the kinds of a type.
	kinds map[reflect.Type][]schema.GroupVersionKind
}

func newTypes(faces []*resource.Face) *types {
	t := &types{facts: readFacts(), kinds: map[reflect.Type][]schema.GroupVersionKind{}}
	for k, goType := range scheme.Scheme.AllKnownTypes() {
		if k.Version != runtime.APIVersionInternal {
			t.kinds[goType] = append(t.kinds[goType], k)
		}
	}
	for _, f := range faces { // some faces have no type of client-go
		if t.kinds[goType(f)] == nil && !f.Of.Custom {
			t.kinds[goType(f)] = []schema.GroupVersionKind{f.GroupVersionKind}
		}
	}
	return t
}

// names caches the model names of types, which are used again and again. They are few, and the same in every document.
var names = gotypes.New(func(n *string, t reflect.Type, _ func(reflect.Type) *string) {
	if *n = gotypes.ModelName(t); *n == "" {
		host, path, _ := strings.Cut(t.PkgPath(), "/")
		parts := strings.Split(host, ".")
		slices.Reverse(parts)
		*n = strings.Join(parts, ".") + "." + strings.ReplaceAll(path, "/", ".") + "." + t.Name()
	}
})

// name returns Kubernetes' name of a type: "io.k8s.api.core.v1.Pod".
func name(t reflect.Type) string { return *names.Of(t) }

// typeDescriber is a type that declares its own OpenAPI type.
type typeDescriber interface {
	OpenAPISchemaType() []string
	OpenAPISchemaFormat() string
}

// define makes the schema of a struct.
func (t *types) define(of reflect.Type) *Schema {
	s := &Schema{Type: "object", Description: describe(of)[""]}
	zero := reflect.Zero(of).Interface()
	if l, ok := zero.(typeDescriber); ok {
		s.Type, s.Format = first(l.OpenAPISchemaType()), l.OpenAPISchemaFormat()
		if o, ok := zero.(interface{ OpenAPIV3OneOfTypes() []string }); ok {
			s.OneOf = o.OpenAPIV3OneOfTypes()
		}
	} else if !opaque(of) {
		t.addFields(s, of)
		slices.SortFunc(s.Properties, func(a, b Property) int { return cmp.Compare(a.Name, b.Name) })
	}
	if s.Description == "" {
		s.Description = wellKnown[name(of)]
	}
	if f := t.facts.of(of); f != nil && f.atomic {
		s.extend("x-kubernetes-map-type", "atomic")
	}
	if known := t.kinds[of]; len(known) > 0 {
		s.Extensions = append(s.Extensions, kindsExtension(known))
	}
	return s
}

// first returns a type's first name; empty for values that may be of any type.
func first(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

func kindsExtension(known []schema.GroupVersionKind) Extension {
	var list []gvk
	for _, k := range known {
		list = append(list, gvkOf(k))
	}
	slices.SortFunc(list, func(a, b gvk) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind))
	})
	return extension(gvkExtension, list)
}

// opaque reports whether a struct's JSON form differs from its fields.
func opaque(t reflect.Type) bool { return gotypes.MarshalsJSON(t) }

// describe returns a type's documentation by field; that of the type itself has the key "".
func describe(t reflect.Type) map[string]string {
	if d, ok := reflect.Zero(t).Interface().(interface{ SwaggerDoc() map[string]string }); ok {
		return d.SwaggerDoc()
	}
	return nil
}

func (t *types) addFields(s *Schema, of reflect.Type) {
	docs, facts := describe(of), t.facts.of(of)
	for f := range gotypes.Fields(of) {
		if f.Inlined {
			if inner := target(f.Type); inner.Kind() == reflect.Struct {
				t.addInlined(s, inner)
			}
			continue
		}
		jsonName := cmp.Or(f.JSON, f.Name)
		fact := facts.field(jsonName)
		optional := f.OmitEmpty || fact.optional
		p := Property{Name: jsonName, Schema: *t.value(f.Type, !optional || isStruct(f.Type))}
		p.Description = docs[jsonName]
		t.mark(&p.Schema, f.StructField, fact)
		if !optional || fact.required {
			s.Required = append(s.Required, jsonName)
		}
		s.Properties = append(s.Properties, p)
	}
}

func (t *types) addInlined(s *Schema, of reflect.Type) {
	if of == reflect.TypeFor[metav1.TypeMeta]() {
		docs := describe(of)
		s.Properties = append(s.Properties,
			Property{"apiVersion", Schema{Type: "string", Description: docs["apiVersion"]}},
			Property{"kind", Schema{Type: "string", Description: docs["kind"]}})
		return
	}
	t.addFields(s, of)
}

func isStruct(t reflect.Type) bool { return t.Kind() == reflect.Struct }

// mark adds what tags and facts say about a field.
func (t *types) mark(s *Schema, f reflect.StructField, fact fieldFact) {
	if fact.fallback != "" {
		s.Default = json.RawMessage(fact.fallback)
	}
	if len(fact.keys) > 0 {
		s.extend("x-kubernetes-list-map-keys", fact.keys)
	}
	if fact.list != "" {
		s.extend("x-kubernetes-list-type", fact.list)
	}
	if fact.atomicMap {
		s.extend("x-kubernetes-map-type", "atomic")
	}
	if key := f.Tag.Get("patchMergeKey"); key != "" {
		s.extend("x-kubernetes-patch-merge-key", key)
	}
	if strategy := f.Tag.Get("patchStrategy"); strategy != "" {
		s.extend("x-kubernetes-patch-strategy", strategy)
	}
}

// value makes the schema of a field, an element or a map's value. withDefault adds the zero value as default, as
// Kubernetes does for required values.
func (t *types) value(of reflect.Type, withDefault bool) *Schema {
	s := &Schema{}
	switch of.Kind() {
	case reflect.Pointer:
		return t.value(of.Elem(), false)
	case reflect.Struct:
		s.Ref = name(of)
		if withDefault && !scalar(of) {
			s.Default = json.RawMessage("{}")
		}
	case reflect.Slice, reflect.Array:
		if of.Elem().Kind() == reflect.Uint8 {
			s.Type, s.Format = "string", "byte"
			break
		}
		s.Type, s.Items = "array", t.value(of.Elem(), true)
	case reflect.Map:
		s.Type, s.Additional = "object", t.value(of.Elem(), true)
	case reflect.Interface:
		s.Type = "object"
	default:
		t.plain(s, of, withDefault)
	}
	return s
}

// scalar reports whether a struct is a single value in JSON.
func scalar(t reflect.Type) bool {
	l, ok := reflect.Zero(t).Interface().(typeDescriber)
	return ok && first(l.OpenAPISchemaType()) != "object"
}

func (t *types) plain(s *Schema, of reflect.Type, withDefault bool) {
	zero := ""
	switch of.Kind() {
	case reflect.String:
		s.Type, zero = "string", `""`
		if values := t.facts.enum(of); len(values) > 0 {
			for _, v := range values {
				s.Enum = append(s.Enum, encoded(v))
			}
		}
	case reflect.Bool:
		s.Type, zero = "boolean", "false"
	case reflect.Int64, reflect.Uint64, reflect.Int, reflect.Uint:
		s.Type, s.Format, zero = "integer", "int64", "0"
	case reflect.Float64, reflect.Float32:
		s.Type, s.Format, zero = "number", "double", "0"
	default:
		s.Type, s.Format, zero = "integer", "int32", "0"
	}
	if withDefault {
		s.Default = json.RawMessage(zero)
	}
}

// reach adds the types to which a type's schema refers, directly or indirectly.
func reach(seen map[string]reflect.Type, of reflect.Type) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		reach(seen, of.Elem())
	case reflect.Struct:
		if _, been := seen[name(of)]; been {
			return
		}
		seen[name(of)] = of
		if _, isLeaf := reflect.Zero(of).Interface().(typeDescriber); isLeaf || opaque(of) {
			return
		}
		reachFields(seen, of)
	}
}

func reachFields(seen map[string]reflect.Type, of reflect.Type) {
	for f := range gotypes.Fields(of) {
		if !f.Inlined {
			reach(seen, f.Type)
		} else if inner := target(f.Type); inner.Kind() == reflect.Struct && inner != reflect.TypeFor[metav1.TypeMeta]() {
			reachFields(seen, inner)
		}
	}
}

// target is the type that a pointer points to, or the type itself.
func target(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// wellKnown are descriptions of types without documentation.
var wellKnown = map[string]string{
	"io.k8s.apimachinery.pkg.api.resource.Quantity": "Quantity is a fixed-point number with a unit suffix: 100m, 1.5Gi, 2e3. " +
		"Suffixes are those of the binary system (Ki, Mi, Gi, Ti, Pi, Ei), of the decimal system (m, none, k, M, G, T, P, E), " +
		"or a decimal exponent. It is answered in its canonical form: no fraction, and the largest suffix that allows it.",
	"io.k8s.apimachinery.pkg.util.intstr.IntOrString": "IntOrString is an integer or a string: a number or a percentage, a port's number or its name.",
	"io.k8s.apimachinery.pkg.apis.meta.v1.Time":       "Time is a moment, in the format of RFC 3339, to the second.",
	"io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime":  "MicroTime is a moment, in the format of RFC 3339, to the microsecond.",
	"io.k8s.apimachinery.pkg.apis.meta.v1.Duration":   "Duration is a length of time, as text with units: 1h30m.",
	"io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent": "Event represents a single event to a watched resource.",
	"io.k8s.apimachinery.pkg.runtime.RawExtension":    "RawExtension holds an object of any kind.",
}
