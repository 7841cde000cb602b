package openapi

import (
	"bytes"
	"encoding/json"
	"testing"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// rendered is a definition's schema as a document in JSON shows it.
func rendered(t *testing.T, definition string, version2 bool) string {
	t.Helper()
	var p v1.JSONSchemaProps
	if err := yaml.Unmarshal([]byte(definition), &p); err != nil {
		t.Fatal(err)
	}
	s := FromDefinition(&p)
	if version2 {
		s = forVersion2(s)
	}
	text := jsonText{v2: version2}
	text.schema(s)
	var out bytes.Buffer
	if err := json.Compact(&out, text.b); err != nil {
		t.Fatalf("%s: %v", text.b, err)
	}
	return out.String()
}

func TestVersion2ShowsOfACustomSchemaWhatItCanSay(t *testing.T) {
	for name, test := range map[string]struct{ definition, version2 string }{
		"validations stay": {
			`{type: object, properties: {a: {type: string, pattern: "x|y", maxLength: 3}, i: {type: integer, minimum: 1}}}`,
			`{"type":"object","properties":{"a":{"type":"string","maxLength":3,"pattern":"x|y"},"i":{"type":"integer","minimum":1}}}`},
		"junctions go": {
			`{type: object, minProperties: 1, anyOf: [{required: [a]}], not: {required: [b]}}`,
			`{"type":"object","minProperties":1}`},
		"a value that may be null has no type, and is not required": {
			`{type: object, required: [a, b], properties: {a: {type: object, nullable: true, properties: {x: {type: string}}}, b: {type: string}}}`,
			`{"type":"object","required":["b"],"properties":{"a":{},"b":{"type":"string"}}}`},
		"a value that keeps unknown fields has no parts": {
			`{type: object, properties: {a: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {x: {type: string}}}}}`,
			`{"type":"object","properties":{"a":{"x-kubernetes-preserve-unknown-fields":true}}}`},
		"values of maps are treated alike": {
			`{type: object, additionalProperties: {type: array, items: {type: string, oneOf: [{minLength: 1}]}}}`,
			`{"type":"object","additionalProperties":{"type":"array","items":{"type":"string"}}}`},
	} {
		if got := rendered(t, test.definition, true); got != test.version2 {
			t.Errorf("%s:\n got %s\nwant %s", name, got, test.version2)
		}
	}
}

func TestVersion3ShowsAllOfACustomSchema(t *testing.T) {
	const definition = `{type: object, anyOf: [{required: [a]}], properties: {a: {type: string, nullable: true}}}`
	const want = `{"type":"object","properties":{"a":{"type":"string","nullable":true}},"anyOf":[{"required":["a"]}]}`
	if got := rendered(t, definition, false); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
