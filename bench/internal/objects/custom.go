package objects

import (
	"encoding/json"
	"fmt"
	"strings"
)

// InGroup is how many definitions share a group.
const InGroup = 10

// Group is the API group of the definition of a number.
func Group(n int) string { return fmt.Sprintf("g%d.bench.example.com", n/InGroup) }

// Things is where the objects of a definition are.
func Things(n int) string {
	return fmt.Sprintf("/apis/%s/v1/namespaces/default/things%d", Group(n), n)
}

// Definition defines things of a number, by a schema that makes it about so large. An object has what the definitions of operators have: a
// few fields that are used, and many that are not.
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

// Thing is an object of about so many bytes.
func Thing(n, size int) Template {
	text, _ := json.Marshal(words(size, uint64(n)))
	return New(fmt.Appendf(nil, `{"apiVersion":"%s/v1","kind":"Thing%d","metadata":{"name":%q,"labels":{"app":"web"}},`+
		`"spec":{"seq":"seq=%s","replicas":3,"ports":[{"name":"http","port":80},{"name":"https","port":443}],"field0000":{"name":"a","value":%s}}}`,
		Group(n), n, nameHole, seqHole, text))
}

// ThingPatch changes a thing.
func ThingPatch() Template { return New([]byte(`{"spec":{"seq":"seq=` + seqHole + `"}}`)) }
