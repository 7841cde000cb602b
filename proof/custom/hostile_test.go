package custom_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// schemaOf returns a definition with this schema of the spec.
func schemaOf(t *testing.T, spec map[string]any) *unstructured.Unstructured {
	t.Helper()
	u := parse(t, definition)
	versions := at(u, "spec", "versions").([]any)[:1]
	must("", unstructured.SetNestedMap(versions[0].(map[string]any), spec, "schema", "openAPIV3Schema", "properties", "spec"))(t)
	delete(versions[0].(map[string]any), "selectableFields")
	must("", unstructured.SetNestedSlice(u.Object, versions, "spec", "versions"))(t)
	return u
}

func object(properties map[string]any) map[string]any {
	return map[string]any{"type": "object", "properties": properties}
}

func TestDefinitionsThatKubernetesRefusesAreRefusedInItsWordsAndNotKept(t *testing.T) {
	d := start(t)
	text := map[string]any{"type": "string"}
	rule := func(rule string, s map[string]any) map[string]any {
		s = maps.Clone(s)
		s["x-kubernetes-validations"] = []any{map[string]any{"rule": rule}}
		return s
	}
	unbounded := map[string]any{"type": "array", "items": map[string]any{"type": "array", "items": text}}
	for name, c := range map[string]struct {
		spec  map[string]any
		words string
	}{
		"a reference":           {object(map[string]any{"a": map[string]any{"$ref": "#/definitions/a"}}), "$ref: Forbidden: $ref is not supported"},
		"one to itself":         {map[string]any{"$ref": "#"}, "$ref: Forbidden: $ref is not supported"},
		"a list of no items":    {object(map[string]any{"a": map[string]any{"type": "array"}}), "items: Required value: must be specified"},
		"no type":               {object(map[string]any{"a": map[string]any{}}), "type: Required value: must not be empty for specified object fields"},
		"a pattern":             {object(map[string]any{"a": map[string]any{"type": "string", "pattern": "("}}), "pattern: Invalid value: "},
		"a default of no sense": {object(map[string]any{"a": map[string]any{"type": "integer", "default": "x"}}), `default: Invalid value: "string":  in body must be of type integer: "string"`},
		"CEL that is none":      {rule("self.a ==", object(map[string]any{"a": text})), "compilation failed: ERROR: <input>:1:10: Syntax error"},
		"CEL of unknown fields": {rule("self.b == 'x'", object(map[string]any{"a": text})), "undefined field 'b'"},
		"CEL that is no truth":  {rule("self.a", object(map[string]any{"a": text})), "cel expression must evaluate to a bool"},
		"CEL that costs a lot":  {rule("self.a.all(x, self.a.all(y, x.all(z, y.all(w, z == w))))", object(map[string]any{"a": unbounded})), "estimated rule cost exceeds budget by factor of more than 100x"},
		"a key that is not there": {object(map[string]any{"a": map[string]any{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"k"},
			"items": object(map[string]any{"name": text})}}), "entries must all be names of item properties"},
	} {
		_, err := d.Resource(definitions).Create(t.Context(), schemaOf(t, c.spec), metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: got %v, want %s", name, err, c.words)
		}
	}
	if list := must(d.Resource(definitions).List(t.Context(), metav1.ListOptions{}))(t); len(list.Items) != 0 {
		t.Errorf("%d definitions were kept", len(list.Items))
	}
}

func TestLargeAndDeepDefinitionsAreServed(t *testing.T) {
	d := start(t)
	wide := map[string]any{}
	for i := range 10_000 {
		wide[fmt.Sprint("p", i)] = map[string]any{"type": "string", "description": strings.Repeat("d", 80)}
	}
	deep := map[string]any{"type": "string"}
	nested := any("bottom")
	for range 100 {
		deep, nested = object(map[string]any{"a": deep}), map[string]any{"a": nested}
	}
	made := schemaOf(t, object(map[string]any{"wide": object(wide), "deep": deep}))
	created := must(d.Resource(definitions).Create(t.Context(), made, metav1.CreateOptions{}))(t)
	await(t, d, created, func(u *unstructured.Unstructured) bool { return condition(u, "Established") == "True" })
	o := tab("a", "{}")
	must("", unstructured.SetNestedField(o.Object, nested, "spec", "deep"))(t)
	must("", unstructured.SetNestedField(o.Object, "x", "spec", "wide", "p9999"))(t)
	must("", unstructured.SetNestedField(o.Object, "x", "spec", "wide", "unknown"))(t)
	n := d.Resource(tabs).Namespace("default")
	got := must(n.Create(t.Context(), o, metav1.CreateOptions{}))(t)
	if at(got, "spec", "wide", "p9999") != "x" || at(got, "spec", "wide", "unknown") != nil || at(got, "spec", "deep", "a", "a") == nil {
		t.Errorf("created %v", got.Object)
	}
	applied := must(n.Apply(t.Context(), "b", tab("b", "{wide: {p1: x, p2: z}}"), metav1.ApplyOptions{FieldManager: "m"}))(t)
	if at(applied, "spec", "wide", "p2") != "z" || len(applied.GetManagedFields()) != 1 {
		t.Errorf("applied %v", applied.Object)
	}
}
