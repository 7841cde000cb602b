package differences_test

import "slices"

// node is a schema as JSON.
type node = map[string]any

// names are those of properties. Some of them are words of CEL, or have to be escaped in it.
var names = []string{"a", "b", "c", "d", "e", "a", "b", "c", "d", "e", "a-b", "in", "x.y", "namespace", "__z__", "s/t", "kind", "int"}

// schema returns a random structural schema.
func (d dice) schema(depth int) node {
	var s node
	switch n := d.IntN(100); {
	case n < 22:
		s = d.stringSchema()
	case n < 36:
		s = d.numberSchema()
	case n < 42:
		s = node{"type": "boolean"}
	case n < 47:
		s = node{"x-kubernetes-int-or-string": true}
		if d.chance(30) {
			s["anyOf"] = []any{node{"type": "integer"}, node{"type": "string"}}
		}
	case n < 51:
		s = d.openSchema()
	case depth == 0:
		s = d.stringSchema()
	case n < 72:
		s = d.objectSchema(depth)
	case n < 82:
		s = node{"type": "object", "additionalProperties": d.schema(depth - 1)}
		d.bound(s, "minProperties", "maxProperties", 3)
	default:
		s = d.listSchema(depth)
	}
	d.decorate(s)
	return s
}

var stringFormats = []string{"date-time", "date", "uuid", "ipv4", "ipv6", "cidr", "email", "uri", "hostname", "byte", "duration", "password", "mac", "bsonobjectid", "k8s-short-name", "strange"}

var patterns = []string{"^[a-z]+$", "a", "^.{2,}$", `^\d+$|^[ab]*$`}

func (d dice) stringSchema() node {
	s := node{"type": "string"}
	switch d.IntN(6) {
	case 0:
		s["format"] = pick(d, stringFormats...)
	case 1:
		s["pattern"] = pick(d, patterns...)
	case 2:
		s["enum"] = pick(d, []any{"a", "b"}, []any{"a", "red", ""}, []any{"b"})
	case 3:
		d.bound(s, "minLength", "maxLength", 4)
	}
	return s
}

func (d dice) numberSchema() node {
	s := node{"type": pick(d, "integer", "integer", "number")}
	switch d.IntN(6) {
	case 0:
		s["format"] = pick(d, "int32", "int64", "float", "double")
	case 1:
		s["enum"] = []any{1, 2, 7}
	case 2:
		s["multipleOf"] = pick[any](d, 2, 3, 0.5)
	case 3:
		d.bound(s, "minimum", "maximum", 8)
		if s["minimum"] != nil && d.chance(30) {
			s["exclusiveMinimum"] = true
		}
	}
	return s
}

// bound sets one of two bounds, or both.
func (d dice) bound(s node, least, most string, top int) {
	switch d.IntN(4) {
	case 0:
		s[least] = 1
	case 1:
		s[most] = top
	case 2:
		s[least], s[most] = 1, top
	}
}

// openSchema returns one that lets pass what it does not know.
func (d dice) openSchema() node {
	s := node{"x-kubernetes-preserve-unknown-fields": true}
	switch d.IntN(4) {
	case 0:
		s["type"], s["x-kubernetes-embedded-resource"] = "object", true
	case 1:
		s["type"], s["properties"] = "object", node{"a": d.stringSchema()}
	case 2:
		s["type"] = "object"
	}
	return s
}

func (d dice) objectSchema(depth int) node {
	properties := node{}
	for range 1 + d.IntN(4) {
		properties[pick(d, names...)] = d.schema(depth - 1)
	}
	s := node{"type": "object", "properties": properties}
	for _, name := range keys(properties) {
		if d.chance(15) {
			required, _ := s["required"].([]any)
			s["required"] = append(required, name)
		}
	}
	if d.chance(10) {
		d.bound(s, "minProperties", "maxProperties", 3)
	}
	if d.chance(8) {
		s["x-kubernetes-map-type"] = pick(d, "atomic", "granular")
	}
	if d.chance(4) {
		s["x-kubernetes-embedded-resource"] = true
		for _, name := range []string{"apiVersion", "kind", "metadata"} {
			delete(properties, name)
		}
	}
	return s
}

func (d dice) listSchema(depth int) node {
	s := node{"type": "array"}
	d.bound(s, "minItems", "maxItems", 4)
	switch d.IntN(4) {
	case 0:
		s["items"], s["x-kubernetes-list-type"] = pick(d, d.stringSchema(), node{"type": "integer"}), "set"
	case 1:
		item := d.objectSchema(max(depth-1, 1))
		properties := item["properties"].(node)
		properties["name"], s["x-kubernetes-list-map-keys"] = node{"type": "string"}, []any{"name"}
		required, _ := item["required"].([]any)
		if d.chance(25) {
			properties["port"] = node{"type": "integer", "default": 80}
			s["x-kubernetes-list-map-keys"] = []any{"name", "port"}
		}
		if !slices.Contains(required, any("name")) {
			required = append(required, "name")
		}
		item["required"] = required
		s["items"], s["x-kubernetes-list-type"] = item, "map"
	case 2:
		s["items"], s["x-kubernetes-list-type"] = d.schema(depth-1), "atomic"
	default:
		s["items"] = d.schema(depth - 1)
	}
	return s
}

// decorate adds what any schema may have.
func (d dice) decorate(s node) {
	if d.chance(10) {
		s["nullable"] = true
	}
	if d.chance(14) {
		s["default"] = d.value(s, 100)
		if d.chance(6) {
			s["default"] = d.wrong(s)
		}
	}
	if d.chance(12) {
		d.validate(s)
	}
	if d.chance(18) {
		s["x-kubernetes-validations"] = d.rules(s)
	}
	if d.chance(3) {
		s["description"] = "some \"words\"\nof it"
	}
}

// validate adds value validations that are combined.
func (d dice) validate(s node) {
	one := func() node {
		switch s["type"] {
		case "string":
			return pick(d, node{"minLength": 1}, node{"maxLength": 3}, node{"pattern": "^a"}, node{"enum": []any{"a", "abc", "b"}}, node{"format": "date"})
		case "integer", "number":
			return pick(d, node{"minimum": 1}, node{"maximum": 5}, node{"multipleOf": 2}, node{"enum": []any{1, 2}})
		case "array":
			return pick(d, node{"minItems": 1}, node{"maxItems": 2}, node{"items": node{"enum": []any{"a"}}})
		case "object":
			if properties, ok := s["properties"].(node); ok {
				name := pick(d, keys(properties)...)
				return pick(d, node{"required": []any{name}}, node{"properties": node{name: node{"enum": []any{"a", 1}}}}, node{"not": node{"required": []any{name}}},
					node{"properties": node{name: node{"x-kubernetes-validations": []any{node{"rule": "self != oldSelf"}}}}})
			}
			return pick(d, node{"minProperties": 1}, node{"maxProperties": 2})
		}
		return node{"enum": []any{"a", 1, true}}
	}
	switch how := pick(d, "allOf", "anyOf", "oneOf", "not"); {
	case how == "not":
		s[how] = one()
	case s[how] == nil:
		s[how] = []any{one(), one()}
	}
}

// nodes are all schemas within a schema, itself included.
func nodes(s node) []node {
	out := []node{s}
	properties, _ := s["properties"].(node)
	for _, name := range keys(properties) {
		if inner, ok := properties[name].(node); ok {
			out = append(out, nodes(inner)...)
		}
	}
	for _, name := range []string{"items", "additionalProperties"} {
		if inner, ok := s[name].(node); ok {
			out = append(out, nodes(inner)...)
		}
	}
	return out
}
