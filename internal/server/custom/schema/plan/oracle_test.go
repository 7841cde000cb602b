package plan_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/randomly"
	"github.com/millrace/millrace/internal/server/custom/schema/plan"
	objects "github.com/millrace/millrace/internal/server/resource/tree"
)

// maker makes random schemas, and values that are mostly what they say.
type maker struct{ *rand.Rand }

func (m maker) chance(percent int) bool { return m.IntN(100) < percent }

func one[T any](m maker, all ...T) T { return all[m.IntN(len(all))] }

var names = []string{"alpha", "beta", "gamma", "delta", "eps"}

type props = apiextensions.JSONSchemaProps

func (m maker) schema(depth int) props {
	kinds := []string{"string", "integer", "number", "boolean", "any", "both"}
	if depth > 0 {
		kinds = append(kinds, "object", "object", "array", "map", "embedded", "array")
	}
	s := m.typed(one(m, kinds...), depth)
	s.Nullable = m.chance(15)
	if m.chance(20) {
		value := apiextensions.JSON(m.value(&s, 0))
		s.Default = &value
	}
	if m.chance(4) {
		s.AnyOf = []props{{MinLength: new(int64(2))}, {Minimum: new(3.0)}}
	}
	return s
}

func (m maker) typed(kind string, depth int) props {
	s := props{Type: kind}
	switch kind {
	case "string":
		if m.chance(25) {
			s.MaxLength = new(int64(one(m, 2, 5)))
		}
		if m.chance(20) {
			s.Enum = []apiextensions.JSON{"a", "red"}
		}
		if m.chance(20) {
			s.Pattern = one(m, "^a", "^[a-z]*$")
		}
		if m.chance(20) {
			s.Format = one(m, "date-time", "byte", "ipv4", "uuid", "other")
		}
	case "integer", "number":
		if m.chance(30) {
			s.Minimum, s.ExclusiveMinimum = new(float64(one(m, 0, 3))), m.chance(30)
		}
		if m.chance(30) {
			s.Maximum, s.ExclusiveMaximum = new(float64(one(m, 5, 100))), m.chance(30)
		}
		if m.chance(10) {
			s.MultipleOf = new(2.0)
		}
		if m.chance(20) {
			s.Format = one(m, "int32", "int64", "double")
		}
	case "any":
		s.Type, s.XPreserveUnknownFields = "", new(true)
		if m.chance(20) {
			s.Enum = []apiextensions.JSON{"a", int64(1)}
		}
	case "both":
		s.Type, s.XIntOrString = "", true
		if m.chance(50) {
			s.AnyOf = []props{{Type: "integer"}, {Type: "string"}}
		}
	case "object":
		m.fields(&s, depth)
	case "embedded":
		s.Type, s.XEmbeddedResource, s.XPreserveUnknownFields = "object", true, new(true)
	case "map":
		s.Type, s.AdditionalProperties = "object", &apiextensions.JSONSchemaPropsOrBool{Allows: true}
		if m.chance(80) {
			element := m.schema(depth - 1)
			s.AdditionalProperties.Schema = &element
		}
	case "array":
		m.list(&s, depth)
	}
	return s
}

func (m maker) fields(s *props, depth int) {
	s.Type, s.Properties = "object", map[string]props{}
	for _, i := range m.Perm(len(names))[:1+m.IntN(4)] {
		s.Properties[names[i]] = m.schema(depth - 1)
	}
	if m.chance(30) {
		s.Required = []string{one(m, names...)}
	}
	if m.chance(10) {
		s.MaxProperties = new(int64(2))
	}
	if m.chance(15) {
		s.XPreserveUnknownFields = new(true)
	}
}

func (m maker) list(s *props, depth int) {
	element := m.schema(depth - 1)
	s.Items = &apiextensions.JSONSchemaPropsOrArray{Schema: &element}
	if m.chance(30) {
		s.MaxItems = new(int64(2))
	}
	switch {
	case m.chance(30):
		s.XListType = new("set")
	case len(element.Properties) > 0 && m.chance(60):
		s.XListType = new("map")
		for name := range element.Properties {
			s.XListMapKeys = append(s.XListMapKeys, name)
			if len(s.XListMapKeys) == 2 {
				break
			}
		}
	}
}

// value is one for a schema, and wrong as often as is said.
func (m maker) value(s *props, wrong int) any {
	if m.chance(wrong) {
		return one[any](m, nil, "a", "", int64(1), 1.5, true, []any{}, map[string]any{}, []any{"a", nil}, map[string]any{"alpha": int64(1)}, int64(1)<<60)
	}
	switch {
	case s.Nullable && m.chance(20):
		return nil
	case s.XIntOrString:
		return one[any](m, "a", int64(5))
	case s.Type == "string":
		return one[any](m, "a", "ab", "red", "B", "", "aGk=", "1.2.3.4", "2024-01-02T03:04:05Z")
	case s.Type == "integer":
		return one[any](m, int64(0), int64(3), int64(4), int64(5), int64(100), int64(1)<<40)
	case s.Type == "number":
		return one[any](m, int64(3), 2.5, 5.0, 4.0)
	case s.Type == "boolean":
		return m.chance(50)
	case s.Type == "array":
		list := []any{}
		for range m.IntN(4) {
			list = append(list, m.value(s.Items.Schema, wrong))
		}
		return list
	case s.Type == "object":
		return m.object(s, wrong)
	}
	return one[any](m, "a", int64(1), true, map[string]any{"x": nil})
}

func (m maker) object(s *props, wrong int) map[string]any {
	object := map[string]any{}
	if s.XEmbeddedResource {
		object = map[string]any{"apiVersion": "v1", "kind": "A", "metadata": map[string]any{"name": "a"}}
	}
	for name, p := range s.Properties {
		if m.chance(85) {
			object[name] = m.value(&p, wrong)
		}
	}
	if a := s.AdditionalProperties; a != nil {
		element := a.Schema
		if element == nil {
			element = &props{}
		}
		for range m.IntN(3) {
			object[one(m, names...)] = m.value(element, wrong)
		}
	}
	if m.chance(wrong) || s.XPreserveUnknownFields != nil && m.chance(30) {
		object["unknown"] = one[any](m, nil, "a", map[string]any{"y": nil})
	}
	return object
}

func (m maker) metadata() map[string]any {
	meta := map[string]any{"name": "a", "namespace": "default", "generation": int64(1), "creationTimestamp": "2024-01-02T03:04:05Z", "uid": "1"}
	for name, values := range map[string][]any{
		"labels":            {map[string]any{"a": "b"}, map[string]any{}, map[string]any{"a": int64(1)}, nil},
		"finalizers":        {[]any{"a/b"}, []any{}},
		"generateName":      {"a-", ""},
		"creationTimestamp": {nil, "2024-01-02T03:04:05+02:00", "2024-01-02T03:04:05.5Z", "2024-02-30T03:04:05Z"},
		"other":             {"a"},
		"deletionTimestamp": {"2024-01-02T03:04:05Z"},
		"ownerReferences":   {[]any{map[string]any{"name": "a", "uid": "1", "kind": "A", "apiVersion": "v1"}}},
		"managedFields":     {[]any{map[string]any{"manager": "m", "operation": "Update", "apiVersion": "v1", "time": "2024-01-02T03:04:05Z", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{}}}}},
	} {
		if m.chance(8) {
			meta[name] = one(m, values...)
		}
	}
	return meta
}

// TestAPlanSaysYesOnlyWhereThePublishedPackagesFindNothing compares the two on random schemas and objects.
func TestAPlanSaysYesOnlyWhereThePublishedPackagesFindNothing(t *testing.T) {
	m := maker{rand.New(rand.NewPCG(randomly.Seed(t), 1))}
	complete, valid, fitting, all := 0, 0, 0, 0
	for range 600 {
		root := props{}
		m.fields(&root, 3)
		tree, err := structural.NewStructural(&root)
		if err != nil {
			t.Fatal(err)
		}
		check, _, err := validation.NewSchemaValidator(&root)
		if err != nil {
			t.Fatal(err)
		}
		p := plan.Compile(tree)
		for range 20 {
			object := m.object(&root, one(m, 0, 0, 5, 30))
			object["apiVersion"], object["kind"], object["metadata"] = "example.com/v1", "Tab", m.metadata()
			all++
			text, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if p.Complete(object) {
				complete++
				if changed, why := refined(t, object, tree); changed {
					t.Fatalf("%s is not complete (%s): %v", text, why, describe(root))
				}
			}
			if whole, _ := p.Whole(text); whole {
				if changed, why := refined(t, object, tree); changed {
					t.Fatalf("%s is not whole (%s): %v", text, why, describe(root))
				}
			} else if p.Complete(object) && object["metadata"].(map[string]any)["generation"] != nil {
				t.Fatalf("%s is complete and not whole: %v", text, describe(root))
			}
			if o, ok := objects.ParseObject(string(text)); ok && p.Fits(o) {
				fitting++
				read := o.Tree().Object // its metadata are written as the server writes them
				if !p.Valid(read) || !p.Complete(read) {
					t.Fatalf("%s fits, but complete is %t and valid is %t: %v", text, p.Complete(read), p.Valid(read), describe(root))
				}
			}
			if !p.Valid(object) {
				continue
			}
			valid++
			errs := validation.ValidateCustomResource(nil, object, check)
			errs = append(errs, listtype.ValidateListSetsAndMaps(nil, tree, object)...)
			errs = append(errs, objectmeta.Validate(t.Context(), nil, object, tree, false)...)
			if len(errs) > 0 {
				t.Fatalf("%s is not valid: %v: %v", text, errs, describe(root))
			}
		}
	}
	if complete < all/20 || valid < all/20 || fitting < all/40 {
		t.Errorf("of %d objects %d were complete, %d valid and %d both as texts: that proves little", all, complete, valid, fitting)
	}
}

func describe(s props) string {
	text, _ := json.Marshal(s)
	return string(text)
}

// refined tells whether the published packages change an object that was read, and which of them.
func refined(t *testing.T, object map[string]any, tree *structural.Structural) (changed bool, why string) {
	t.Helper()
	now := runtime.DeepCopyJSON(object)
	meta, _, unknown, err := objectmeta.GetObjectMetaWithOptions(now, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil || len(unknown) > 0 {
		return true, "metadata"
	}
	pruning.PruneWithOptions(now, tree, true, structural.UnknownFieldPathOptions{})
	if !equality.Semantic.DeepEqual(now, object) {
		return true, "pruning"
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(now, tree)
	if !equality.Semantic.DeepEqual(now, object) {
		return true, "nulls"
	}
	if err, _ := objectmeta.CoerceWithOptions(nil, now, tree, false, objectmeta.CoerceOptions{}); err != nil {
		return true, err.Error()
	}
	if err := objectmeta.SetObjectMeta(now, meta); err != nil {
		return true, err.Error()
	}
	if !equality.Semantic.DeepEqual(now["metadata"], object["metadata"]) {
		return true, "metadata"
	}
	defaulting.Default(now, tree)
	return !equality.Semantic.DeepEqual(now, object), "defaults"
}
