package apiextensions

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/randomly"
)

// oddly makes random schemas: mostly what people write, with a field that does not belong there now and then.
type oddly struct {
	*rand.Rand
	odds int // of a hundred
}

func pick[T any](o oddly, all ...T) T { return all[o.IntN(len(all))] }

func (o oddly) schema(depth int) v1.JSONSchemaProps {
	kinds := []string{"string", "integer", "number", "boolean"}
	if depth > 0 {
		kinds = append(kinds, "object", "object", "array", "array", "map")
	}
	s := v1.JSONSchemaProps{Type: pick(o, kinds...), Nullable: o.IntN(8) == 0}
	switch s.Type {
	case "object":
		s.Properties = map[string]v1.JSONSchemaProps{}
		for range o.IntN(4) {
			s.Properties[pick(o, "alpha", "beta", "metadata", "kind")] = o.schema(depth - 1)
		}
		s.Required = pick(o, nil, []string{"alpha"}, []string{"alpha", "beta"})
	case "map":
		element := o.schema(depth - 1)
		s.Type, s.AdditionalProperties = "object", &v1.JSONSchemaPropsOrBool{Allows: o.IntN(9) > 0, Schema: pick(o, nil, &element)}
	case "array":
		element := o.schema(depth - 1)
		s.Items = &v1.JSONSchemaPropsOrArray{Schema: &element}
		if s.XListType = pick(o, nil, new("atomic"), new("set"), new("map")); s.XListType != nil && *s.XListType == "map" {
			s.XListMapKeys = []string{"alpha"}
		}
	default:
		o.scalar(&s)
	}
	for o.IntN(100) < o.odds {
		o.spoil(&s, depth)
	}
	return s
}

func (o oddly) scalar(s *v1.JSONSchemaProps) {
	switch o.IntN(6) {
	case 0:
		s.Default = o.value()
	case 1:
		s.Enum = []v1.JSON{*o.value(), *o.value()}
	case 2:
		s.Format = pick(o, "int32", "date-time", "uuid", "double", "other")
	case 3:
		s.Pattern = pick(o, "^a", "[")
	case 4:
		s.Minimum, s.Maximum = pick(o, nil, new(1.0)), pick(o, nil, new(5.0))
	}
}

func (o oddly) value() *v1.JSON {
	return &v1.JSON{Raw: []byte(pick(o, `1`, `7`, `"a"`, `"b"`, `true`, `null`, `{}`, `[]`, `1.5`, `"\u0061"`, `{"alpha":"a"}`))}
}

// spoil sets one field of a schema, whichever it is.
func (o oddly) spoil(s *v1.JSONSchemaProps, depth int) {
	f := reflect.ValueOf(s).Elem().Field(o.IntN(reflect.TypeFor[v1.JSONSchemaProps]().NumField()))
	inner := v1.JSONSchemaProps{Type: "string"}
	if depth > 0 {
		inner = o.schema(depth - 1)
	}
	set := func(v any) { f.Set(reflect.ValueOf(v).Convert(f.Type())) }
	switch f.Interface().(type) {
	case string:
		set(pick(o, "object", "string", "array", "other", ""))
	case v1.JSONSchemaURL:
		set("http://json-schema.org/schema#")
	case *string:
		set(pick(o, new("atomic"), new("set"), new("map"), new("granular"), new("other"), (*string)(nil)))
	case bool:
		f.SetBool(!f.Bool())
	case *bool:
		set(new(o.IntN(2) == 0))
	case *float64:
		set(pick(o, new(0.0), new(-1.0), new(6.5)))
	case *int64:
		set(pick(o, new(int64(0)), new(int64(-1)), new(int64(3))))
	case *v1.JSON:
		set(o.value())
	case []v1.JSON:
		set(pick(o, []v1.JSON{}, []v1.JSON{*o.value()}, []v1.JSON{*o.value(), *o.value()}))
	case []string:
		set(pick(o, []string{}, []string{"alpha"}, []string{"alpha", "alpha"}, []string{"beta", "none"}))
	case []v1.JSONSchemaProps:
		set([]v1.JSONSchemaProps{inner})
	case *v1.JSONSchemaProps:
		set(&inner)
	case map[string]v1.JSONSchemaProps, v1.JSONSchemaDefinitions:
		set(map[string]v1.JSONSchemaProps{"alpha": inner})
	case *v1.JSONSchemaPropsOrArray:
		set(pick(o, &v1.JSONSchemaPropsOrArray{}, &v1.JSONSchemaPropsOrArray{Schema: &inner}, &v1.JSONSchemaPropsOrArray{JSONSchemas: []v1.JSONSchemaProps{inner}}))
	case *v1.JSONSchemaPropsOrBool:
		set(pick(o, &v1.JSONSchemaPropsOrBool{}, &v1.JSONSchemaPropsOrBool{Allows: true}, &v1.JSONSchemaPropsOrBool{Allows: true, Schema: &inner}))
	case v1.JSONSchemaDependencies:
		set(v1.JSONSchemaDependencies{"alpha": {Schema: &inner}})
	case *v1.ExternalDocumentation:
		set(&v1.ExternalDocumentation{URL: "http://example.com"})
	case v1.ValidationRules:
		set(v1.ValidationRules{{Rule: pick(o, "self == self", "self", "1 +")}})
	default:
		panic(f.Type())
	}
}

// definition has one or two versions, and mostly no mistakes but those of its schemas.
func (o oddly) definition() *v1.CustomResourceDefinition {
	d := &v1.CustomResourceDefinition{Spec: v1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: v1.NamespaceScoped, PreserveUnknownFields: o.IntN(40) == 0,
		Names: v1.CustomResourceDefinitionNames{Plural: "tabs", Singular: "tab", Kind: "Tab", ListKind: "TabList"},
	}}
	d.Name = "tabs.example.com"
	for i := range 1 + o.IntN(2) {
		spec := o.schema(3)
		root := v1.JSONSchemaProps{Type: "object", Properties: map[string]v1.JSONSchemaProps{"spec": spec}}
		if o.IntN(3) == 0 {
			root.Properties[pick(o, "metadata", "kind", "apiVersion", "status")] = o.schema(1)
		}
		if o.IntN(100) < o.odds {
			o.spoil(&root, 1)
		}
		v := v1.CustomResourceDefinitionVersion{Name: []string{"v1", "v2"}[i], Served: true, Storage: i == 0, Schema: &v1.CustomResourceValidation{OpenAPIV3Schema: &root}}
		if o.IntN(2) == 0 {
			v.Subresources = &v1.CustomResourceSubresources{Status: &v1.CustomResourceSubresourceStatus{}}
		}
		if o.IntN(20) == 0 {
			v.SelectableFields = []v1.SelectableField{{JSONPath: ".spec.alpha"}}
		}
		d.Spec.Versions = append(d.Spec.Versions, v)
	}
	v1.SetObjectDefaults_CustomResourceDefinition(d)
	noteStorage(d)
	return d
}

func TestARuleFindsNothingInAPlainSchema(t *testing.T) {
	seed := randomly.Seed(t)
	const rounds = 3000
	found := 0
	for i := range uint64(rounds) {
		o := oddly{rand.New(rand.NewPCG(seed+i, 1)), int(i % 5)}
		d := o.definition()
		if !plain(d) {
			continue
		}
		found++
		now, problem := internal(d)
		if problem != nil {
			t.Fatal(problem)
		}
		errs := withoutMetadata(guarded(now, func() field.ErrorList { return validation.ValidateCustomResourceDefinition(t.Context(), now) }))
		formats, sets := oddities(d)
		if len(errs) > 0 || len(formats) > 0 || len(sets) > 0 {
			text, _ := json.Marshal(d.Spec.Versions)
			t.Fatalf("round %d: %v %v %v in a plain definition: %s", i, errs, formats, sets, text)
		}
	}
	if found < rounds/20 {
		t.Errorf("only %d of %d random definitions were plain", found, rounds)
	}
}
