package differences_test

// change changes one schema within another, most often in a way that is allowed: what was valid may no longer be.
func (d dice) change(root node) {
	all := nodes(root)
	s := pick(d, all[1:]...)
	switch d.IntN(9) {
	case 0:
		d.validate(s)
	case 1:
		s["x-kubernetes-validations"] = d.rules(s)
	case 2:
		delete(s, pick(d, "default", "enum", "pattern", "x-kubernetes-validations", "required", "nullable", "format"))
	case 3:
		if s["x-kubernetes-preserve-unknown-fields"] == nil {
			s["default"] = d.value(s, 100)
		}
	case 4:
		if properties, ok := s["properties"].(node); ok {
			properties[pick(d, names...)] = d.schema(1)
		}
	case 5:
		if properties, ok := s["properties"].(node); ok && len(properties) > 1 {
			delete(properties, pick(d, keys(properties)...))
		}
	case 6:
		if properties, ok := s["properties"].(node); ok && len(properties) > 0 {
			s["required"] = []any{pick(d, keys(properties)...)}
		}
	case 7:
		d.restrict(s)
	case 8:
		properties, _ := s["properties"].(node)
		if names := keys(properties); len(names) > 0 {
			properties[pick(d, names...)] = d.schema(1)
		}
	}
}

// restrict makes a schema stricter.
func (d dice) restrict(s node) {
	switch s["type"] {
	case "string":
		pick(d, func() { s["maxLength"] = 2 }, func() { s["pattern"] = "^[a-c]*$" }, func() { s["enum"] = []any{"a", "c"} })()
	case "integer", "number":
		pick(d, func() { s["maximum"] = 3 }, func() { s["enum"] = []any{1, 3} })()
	case "array":
		pick(d, func() { s["maxItems"] = 1 }, func() { s["minItems"] = 2 })()
	case "object":
		s["maxProperties"] = 1
	}
}

// oddities are fields of schemas that are refused, mean nothing, or cannot be read.
func oddities(wrong any) []node {
	return []node{
		{"type": "strange"}, {"type": ""}, {"type": "null"}, {"type": []any{"string"}}, {"items": []any{node{"type": "string"}}}, {"items": node{}}, {"additionalProperties": false}, {"additionalProperties": true},
		{"additionalProperties": node{"type": "string"}}, {"$ref": "#/definitions/a"}, {"uniqueItems": true}, {"x-kubernetes-list-type": "strange"}, {"x-kubernetes-list-type": "set"}, {"x-kubernetes-list-type": "map"},
		{"x-kubernetes-list-map-keys": []any{"none"}}, {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{}}, {"x-kubernetes-map-type": "strange"}, {"x-kubernetes-map-type": "atomic"},
		{"default": wrong}, {"default": node{"a": node{"unknown": 1}}}, {"pattern": "("}, {"pattern": 7}, {"enum": []any{"a", "a"}}, {"enum": []any{}}, {"enum": []any{node{}, 1}}, {"minimum": 5, "maximum": 1},
		{"minLength": -1}, {"maxLength": 1.5}, {"multipleOf": 0}, {"multipleOf": -2}, {"maxItems": "1"}, {"oneOf": []any{node{"type": "string"}}}, {"anyOf": []any{node{"properties": node{"z": node{"enum": []any{1}}}}}},
		{"allOf": []any{node{"default": 1}}}, {"allOf": []any{node{"nullable": true}}}, {"not": node{"x-kubernetes-preserve-unknown-fields": true}}, {"not": node{"additionalProperties": node{"enum": []any{1}}}},
		{"allOf": []any{node{"x-kubernetes-validations": []any{node{"rule": "self == self"}}}}}, {"not": node{"x-kubernetes-validations": []any{node{"rule": "self == self"}}}}, {"allOf": []any{}},
		{"x-kubernetes-preserve-unknown-fields": false}, {"x-kubernetes-preserve-unknown-fields": true}, {"x-kubernetes-embedded-resource": true}, {"x-kubernetes-int-or-string": true}, {"x-kubernetes-strange": 1},
		{"required": []any{"none"}}, {"required": []any{"a", "a"}}, {"required": "a"}, {"dependencies": node{"a": []any{"b"}}}, {"definitions": node{"a": node{"type": "string"}}}, {"patternProperties": node{"^a": node{"type": "string"}}},
		{"id": "x"}, {"title": "words", "example": node{"a": 1}, "externalDocs": node{"url": "http://a"}}, {"discriminator": "a"}, {"readOnly": true}, {"properties": []any{}}, {"properties": node{"z": nil}}, {"properties": node{"z": node{}}},
		{"nullable": true, "enum": []any{"a"}}, {"format": 1}, {"additionalItems": node{"type": "string"}}, {"exclusiveMinimum": 3}, {"exclusiveMaximum": true}, {"description": 1}, {"$schema": "http://json-schema.org/schema#"},
		{"properties": node{"metadata": node{"type": "string"}}}, {"properties": node{"x": node{"type": "string"}}, "additionalProperties": node{"type": "string"}},
		{"x-kubernetes-validations": []any{node{"rule": "self.a", "reason": "Strange"}}}, {"x-kubernetes-validations": []any{node{}}}, {"x-kubernetes-validations": []any{node{"rule": "true", "message": " "}}},
		{"x-kubernetes-validations": []any{node{"rule": "true"}, node{"rule": "true"}}}, {"x-kubernetes-validations": []any{node{"rule": "true", "fieldPath": ".none"}}}, {"x-kubernetes-validations": node{"rule": "true"}},
		{"x-kubernetes-validations": []any{node{"rule": "self.a.all(x, x.all(y, y.all(z, true)))", "unknown": 1}}}, {"x-kubernetes-validations": []any{node{"rule": "oldSelf.x", "optionalOldSelf": true}}},
	}
}

// spoil makes a definition one that should be refused, or at least a strange one.
func (d dice) spoil(s *subject) {
	version := pick(d, s.all()...).(node)
	spec := s.body["spec"].(node)
	if d.chance(70) {
		target := pick(d, nodes(schemaIn(version))...)
		for name, value := range pick(d, oddities(d.wrong(target))...) {
			target[name] = value
		}
		return
	}
	names := spec["names"].(node)
	pick(d,
		func() { spec["preserveUnknownFields"] = true }, func() { spec["scope"] = pick[any](d, "", "Strange", nil) }, func() { spec["group"] = pick(d, "", "Upper.example.com", "one", "other.example.com") },
		func() { names["plural"] = pick(d, "", "Tabs", "others") }, func() { names["kind"] = pick(d, "", "tab", "Tab2") }, func() { names["singular"] = "Tab!" }, func() { names["listKind"] = pick(d, "Tab", "list!") },
		func() { names["shortNames"] = pick(d, []any{"T"}, []any{"t", "t"}, []any{""}, []any{"tabs"}) }, func() { names["categories"] = []any{"A!"} }, func() { version["name"] = pick(d, "", "V1", "1", "v1") },
		func() { version["storage"] = version["storage"] != true }, func() { version["served"] = nil }, func() { delete(version, "schema") }, func() { version["schema"] = node{} }, func() { spec["versions"] = []any{} },
		func() { schemaIn(version)["type"] = "string" }, func() { version["subresources"] = node{"scale": node{}} }, func() {
			version["subresources"] = node{"scale": node{"specReplicasPath": ".status.replicas", "statusReplicasPath": "spec.replicas", "labelSelectorPath": ".spec[0]"}}
		},
		func() {
			version["additionalPrinterColumns"] = []any{node{"name": "", "type": "text", "jsonPath": "spec.a["}, node{"name": "x", "type": "date", "format": "no", "jsonPath": ""}}
		},
		func() {
			version["selectableFields"] = []any{node{"jsonPath": ".spec.a"}, node{"jsonPath": ".spec.a"}, node{"jsonPath": ".metadata.labels"}, node{"jsonPath": "."}, node{}}
		},
		func() { version["deprecationWarning"] = "no" }, func() { version["deprecated"], version["deprecationWarning"] = true, "a\nb" }, func() { spec["conversion"] = node{"strategy": "Strange"} }, func() { spec["conversion"] = node{"strategy": "Webhook"} },
		func() {
			spec["conversion"] = node{"strategy": "None", "webhook": node{"conversionReviewVersions": []any{"v1"}}}
		}, func() { spec["strange"] = 1 }, func() { s.body["status"] = node{"storedVersions": []any{"v9"}} },
		func() {
			spec["conversion"] = node{"strategy": "Webhook", "webhook": node{"conversionReviewVersions": []any{"v9", "v9"}, "clientConfig": node{"url": "http://a"}}}
		},
		func() { s.body["metadata"].(node)["name"] = pick(d, "", "other", "tabs", "others."+s.group) },
	)()
}
