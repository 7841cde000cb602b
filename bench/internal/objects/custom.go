package objects

import (
	"encoding/json"
	"fmt"
	"strings"
)

// InGroup is the number of definitions in each group.
const InGroup = 10

// Group returns the API group of definition n.
func Group(n int) string { return fmt.Sprintf("g%d.bench.example.com", n/InGroup) }

// Things returns the path of the objects of definition n.
func Things(n int) string {
	return fmt.Sprintf("/apis/%s/v1/namespaces/default/things%d", Group(n), n)
}

// Definition returns definition n, with a schema of about this size. Like the definitions of operators it has a few
// fields that objects use, and many that they do not.
func Definition(n, size int) []byte {
	text := map[string]any{"type": "string", "description": strings.TrimSpace(words(120, uint64(n)))}
	properties := map[string]any{
		"seq": text, "replicas": map[string]any{"type": "integer", "default": 1, "minimum": 0},
		"ports": map[string]any{
			"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []string{"name"},
			"items": map[string]any{"type": "object", "required": []string{"name"}, "properties": map[string]any{"name": text, "port": map[string]any{"type": "integer"}}},
		},
	}
	definition := map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": fmt.Sprintf("things%d.%s", n, Group(n))},
		"spec": map[string]any{
			"group": Group(n), "scope": "Namespaced", "names": map[string]any{"plural": fmt.Sprint("things", n), "kind": fmt.Sprint("Thing", n)},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
					"spec": map[string]any{"type": "object", "properties": properties}, "status": map[string]any{"type": "object", "properties": map[string]any{"note": text}},
				}}},
			}},
		},
	}
	least := len(encode(definition))
	one := len(encode(map[string]any{"field0000": nested(text)}))
	for i := 0; least+i*one < size; i++ {
		properties[fmt.Sprintf("field%04d", i)] = nested(text)
	}
	return encode(definition)
}

func nested(text any) any {
	return map[string]any{"type": "object", "properties": map[string]any{"name": text, "value": text, "list": map[string]any{"type": "array", "items": text}}}
}

// Thing returns an object of about this size.
func Thing(n, size int) Template {
	text, _ := json.Marshal(words(size, uint64(n)))
	return New(fmt.Appendf(nil, `{"apiVersion":"%s/v1","kind":"Thing%d","metadata":{"name":%q,"labels":{"app":"web"}},`+
		`"spec":{"seq":"seq=%s","replicas":3,"ports":[{"name":"http","port":80},{"name":"https","port":443}],"field0000":{"name":"a","value":%s}}}`,
		Group(n), n, nameHole, seqHole, text))
}

// ThingPatch returns a patch of a thing.
func ThingPatch() Template { return New([]byte(`{"spec":{"seq":"seq=` + seqHole + `"}}`)) }
