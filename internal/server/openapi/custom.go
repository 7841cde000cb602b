package openapi

import (
	"encoding/json"
	"maps"
	"slices"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// FromDefinition converts the schema in a CustomResourceDefinition.
func FromDefinition(p *v1.JSONSchemaProps) *Schema {
	if p == nil {
		return nil
	}
	s := &Schema{Type: p.Type, Format: p.Format, Description: p.Description, Required: p.Required, Items: itemsOf(p.Items), Additional: additionalOf(p.AdditionalProperties)}
	if p.Default != nil {
		s.Default = json.RawMessage(p.Default.Raw)
	}
	for _, e := range p.Enum {
		s.Enum = append(s.Enum, json.RawMessage(e.Raw))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		of := p.Properties[name]
		s.Properties = append(s.Properties, Property{name, *FromDefinition(&of)})
	}
	s.Extensions, s.Demands = extensionsOf(p), validationsOf(p)
	return s
}

// validationsOf returns the validations, by keyword.
func validationsOf(p *v1.JSONSchemaProps) []Extension {
	var out []Extension
	add := func(name string, said bool, value any) {
		if said {
			out = append(out, extension(name, value))
		}
	}
	add("title", p.Title != "", p.Title)
	add("nullable", p.Nullable, true)
	add("minimum", p.Minimum != nil, p.Minimum)
	add("exclusiveMinimum", p.ExclusiveMinimum, true)
	add("maximum", p.Maximum != nil, p.Maximum)
	add("exclusiveMaximum", p.ExclusiveMaximum, true)
	add("multipleOf", p.MultipleOf != nil, p.MultipleOf)
	add("minLength", p.MinLength != nil, p.MinLength)
	add("maxLength", p.MaxLength != nil, p.MaxLength)
	add("pattern", p.Pattern != "", p.Pattern)
	add("minItems", p.MinItems != nil, p.MinItems)
	add("maxItems", p.MaxItems != nil, p.MaxItems)
	add("minProperties", p.MinProperties != nil, p.MinProperties)
	add("maxProperties", p.MaxProperties != nil, p.MaxProperties)
	add("allOf", len(p.AllOf) > 0, p.AllOf)
	add("anyOf", len(p.AnyOf) > 0, p.AnyOf)
	add("oneOf", len(p.OneOf) > 0, p.OneOf)
	add("not", p.Not != nil, p.Not)
	return out
}

func preserves(p *v1.JSONSchemaProps) bool {
	return p.XPreserveUnknownFields != nil && *p.XPreserveUnknownFields
}

func itemsOf(items *v1.JSONSchemaPropsOrArray) *Schema {
	if items == nil {
		return nil
	}
	return FromDefinition(items.Schema)
}

func additionalOf(a *v1.JSONSchemaPropsOrBool) *Schema {
	switch {
	case a == nil:
		return nil
	case a.Schema != nil:
		return FromDefinition(a.Schema)
	case a.Allows:
		return &Schema{}
	}
	return nil
}

// extensionsOf returns Kubernetes' extensions, by keyword.
func extensionsOf(p *v1.JSONSchemaProps) []Extension {
	var out []Extension
	add := func(name string, said bool, value any) {
		if said {
			out = append(out, extension("x-kubernetes-"+name, value))
		}
	}
	add("embedded-resource", p.XEmbeddedResource, true)
	add("int-or-string", p.XIntOrString, true)
	add("list-map-keys", len(p.XListMapKeys) > 0, p.XListMapKeys)
	add("list-type", p.XListType != nil, p.XListType)
	add("map-type", p.XMapType != nil, p.XMapType)
	add("preserve-unknown-fields", preserves(p), true)
	add("validations", len(p.XValidations) > 0, p.XValidations)
	return out
}

func (s *Schema) keepsUnknown() bool {
	return slices.ContainsFunc(s.Extensions, func(e Extension) bool { return e.Name == "x-kubernetes-preserve-unknown-fields" })
}

func (s *Schema) nullable() bool {
	return slices.ContainsFunc(s.Demands, func(e Extension) bool { return e.Name == "nullable" })
}

// forVersion2 leaves out what OpenAPI 2 does not know, and what kubectl cannot read there: junctions, types of values
// that may be null, and the parts of values that keep unknown fields.
func forVersion2(s *Schema) *Schema {
	if s == nil {
		return nil
	}
	out := *s
	out.Demands = slices.DeleteFunc(slices.Clone(s.Demands), func(e Extension) bool {
		return slices.Contains([]string{"allOf", "anyOf", "oneOf", "not", "nullable"}, e.Name)
	})
	out.Items, out.Additional, out.Properties = forVersion2(s.Items), forVersion2(s.Additional), nil
	for _, p := range s.Properties {
		out.Properties = append(out.Properties, Property{p.Name, *forVersion2(&p.Schema)})
	}
	out.Required = slices.DeleteFunc(slices.Clone(s.Required), func(name string) bool {
		return slices.ContainsFunc(s.Properties, func(p Property) bool { return p.Name == name && p.nullable() })
	})
	if s.Additional != nil && s.Additional.nullable() {
		out.Required = nil
	}
	if s.nullable() {
		out.Type, out.Items, out.Properties = "", nil, nil
	}
	if s.keepsUnknown() {
		out.Items, out.Properties = nil, nil
		if out.Type == "object" {
			out.Type = ""
		}
	}
	if out.Type == "array" && out.Items == nil {
		out.Type = ""
	}
	return &out
}
