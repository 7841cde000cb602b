package custom

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/millrace/millrace/internal/randomly"
)

// The types of objects are those that the library makes of the OpenAPI schema that Kubernetes makes of a structural
// one.
func TestTypesAreTheLibrarys(t *testing.T) {
	r := rand.New(rand.NewPCG(randomly.Seed(t), 0))
	same := func(tree *structural.Structural) {
		t.Helper()
		if have, want := text(t, rootType(tree)), text(t, libraryType(t, tree)); have != want {
			schema, _ := json.Marshal(tree)
			t.Fatalf("of %s\nhave %s\nwant %s", schema, have, want)
		}
	}
	same(nil)
	for range 3000 {
		root := randomTree(r, 4)
		root.Type = "object"
		same(&root)
	}
}

func oneOf[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

func randomTree(r *rand.Rand, depth int) structural.Structural {
	types := []string{"string", "integer", "number", "boolean"}
	if depth > 0 {
		types = append(types, "object", "object", "object", "array", "array", "")
	}
	s := structural.Structural{Generic: structural.Generic{Type: oneOf(r, types...), Nullable: r.IntN(5) == 0}}
	s.XPreserveUnknownFields = r.IntN(6) == 0
	s.XMapType = oneOf(r, nil, nil, new("atomic"), new("granular"))
	if r.IntN(4) == 0 {
		s.Default = structural.JSON{Object: oneOf[any](r, "a", int64(1), map[string]any{"a": "b"})}
	}
	if r.IntN(2) == 0 {
		s.ValueValidation = &structural.ValueValidation{Format: oneOf(r, "", "byte", "date-time", "int-or-string", "int32", "email")}
	}
	switch s.Type {
	case "object":
		randomObject(r, &s, depth)
	case "array":
		item := randomTree(r, depth-1)
		s.Items = &item
		if s.XListType = oneOf(r, nil, new("atomic"), new("set"), new("map")); s.XListType != nil && *s.XListType == "map" {
			s.XListMapKeys = []string{"a", "b"}
		}
	case "":
		s.XIntOrString = true
	}
	return s
}

func randomObject(r *rand.Rand, s *structural.Structural, depth int) {
	s.XEmbeddedResource = r.IntN(4) == 0
	if r.IntN(4) == 0 {
		element := randomTree(r, depth-1)
		s.AdditionalProperties = &structural.StructuralOrBool{Bool: r.IntN(2) == 0, Structural: oneOf(r, nil, &element)}
		return
	}
	for range r.IntN(5) {
		if s.Properties == nil {
			s.Properties = map[string]structural.Structural{}
		}
		s.Properties[oneOf(r, "a", "b", "c", "kind", "apiVersion", "metadata", "spec")] = randomTree(r, depth-1)
	}
}

// libraryType is the type of a version's objects as the library makes it.
func libraryType(t *testing.T, tree *structural.Structural) smd.Atom {
	t.Helper()
	s := objectOf(nil)
	s.AddExtension("x-kubernetes-preserve-unknown-fields", true)
	if tree != nil {
		s = tree.ToKubeOpenAPI()
	}
	embed(s)
	asResource(s)
	const preserveUnknown = false
	types, err := schemaconv.ToSchemaFromOpenAPI(map[string]*spec.Schema{"root": s}, preserveUnknown)
	if err != nil {
		t.Fatal(err)
	}
	return types.Types[0].Atom
}

// asResource adds what every object has.
func asResource(s *spec.Schema) {
	if s.Properties == nil {
		s.Properties = map[string]spec.Schema{}
	}
	s.Properties["apiVersion"] = *spec.StringProperty()
	s.Properties["kind"] = *spec.StringProperty()
	s.Properties["metadata"] = *spec.RefSchema("#/components/schemas/" + metadataModel)
}

// embed adds to objects within an object what every object has.
func embed(s *spec.Schema) {
	for name, p := range s.Properties {
		embed(&p)
		s.Properties[name] = p
	}
	if s.Items != nil && s.Items.Schema != nil {
		embed(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		embed(s.AdditionalProperties.Schema)
	}
	if embedded, _ := s.Extensions.GetBool("x-kubernetes-embedded-resource"); embedded {
		asResource(s)
	}
}

// text is a type with its fields by their names.
func text(t *testing.T, a smd.Atom) string {
	t.Helper()
	sortAtom(a)
	out, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func sortAtom(a smd.Atom) {
	if a.List != nil {
		sortAtom(a.List.ElementType.Inlined)
	}
	if a.Map == nil {
		return
	}
	if len(a.Map.Fields) == 0 {
		a.Map.Fields = nil
	}
	slices.SortFunc(a.Map.Fields, func(a, b smd.StructField) int { return cmp.Compare(a.Name, b.Name) })
	for _, f := range a.Map.Fields {
		sortAtom(f.Type.Inlined)
	}
	sortAtom(a.Map.ElementType.Inlined)
}
