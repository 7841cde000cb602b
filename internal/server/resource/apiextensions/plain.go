package apiextensions

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Kubernetes' rules take some milliseconds for a large schema: they make several copies of it. Most schemas say only
// what cannot be wrong, and one pass finds that. Whatever is unusual is not called plain, and the rules look at it.

// plain tells that the rules find nothing wrong with the schemas of a definition, nor worth a warning.
func plain(d *v1.CustomResourceDefinition) bool {
	if d.Spec.PreserveUnknownFields {
		return false
	}
	for i := range d.Spec.Versions {
		v := &d.Spec.Versions[i]
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil || len(v.SelectableFields) > 0 || !plainRoot(v.Schema.OpenAPIV3Schema) {
			return false
		}
	}
	return true
}

// trivial is a schema that says nothing.
var trivial = &v1.CustomResourceValidation{OpenAPIV3Schema: &v1.JSONSchemaProps{Type: "object"}}

// withoutSchemas is a definition that has such schemas in place of its own.
func withoutSchemas(d *v1.CustomResourceDefinition) *v1.CustomResourceDefinition {
	out := *d
	out.Spec.Versions = slices.Clone(d.Spec.Versions)
	for i := range out.Spec.Versions {
		out.Spec.Versions[i].Schema = trivial
	}
	return &out
}

// plainRoot tells whether the schema of a whole object is plain. All of it but the description stands in its
// properties.
func plainRoot(s *v1.JSONSchemaProps) bool {
	for name, p := range s.Properties {
		switch name {
		case "apiVersion", "kind":
			if p.Type != "string" || p.Default != nil {
				return false
			}
		case "metadata":
			if !reflect.DeepEqual(p, v1.JSONSchemaProps{Type: "object", Description: p.Description}) {
				return false
			}
		}
	}
	return s.Type == "object" && s.Default == nil && !s.Nullable && s.AdditionalProperties == nil && s.XPreserveUnknownFields == nil && s.XMapType == nil &&
		s.MaxProperties == nil && s.MinProperties == nil && s.Title == "" && plainSchema(s)
}

func plainSchema(s *v1.JSONSchemaProps) bool {
	if usesMore(s) || s.Default != nil && !plainDefault(s) {
		return false
	}
	switch s.Type {
	case "object":
		return plainText(s, nil) && s.Items == nil && s.XListType == nil && plainObject(s)
	case "array":
		return plainText(s, nil) && s.Properties == nil && s.AdditionalProperties == nil && s.XPreserveUnknownFields == nil && s.XMapType == nil && plainList(s)
	case "string", "integer", "number", "boolean":
		return plainText(s, formats[s.Type]) && s.Items == nil && s.Properties == nil && s.AdditionalProperties == nil &&
			s.XPreserveUnknownFields == nil && s.XListType == nil && s.XMapType == nil && s.Required == nil
	}
	return false
}

// usesMore tells of fields that a plain schema does not use.
func usesMore(s *v1.JSONSchemaProps) bool {
	return s.ID != "" || s.Schema != "" || s.Ref != nil || s.UniqueItems || s.MultipleOf != nil || s.AllOf != nil || s.OneOf != nil || s.AnyOf != nil || s.Not != nil ||
		s.PatternProperties != nil || s.Dependencies != nil || s.AdditionalItems != nil || s.Definitions != nil || s.ExternalDocs != nil || s.Example != nil ||
		s.XEmbeddedResource || s.XIntOrString || s.XValidations != nil || s.ExclusiveMaximum || s.ExclusiveMinimum ||
		s.XListMapKeys != nil && (s.XListType == nil || *s.XListType != "map")
}

// formats are the usual ones, by the types that have them.
var formats = map[string][]string{
	"string": {"byte", "date", "date-time", "ipv4", "ipv6", "uri", "uuid"}, "integer": {"int32", "int64"}, "number": {"double", "float"},
}

// plainText looks at what strings have, and at enumerations of them.
func plainText(s *v1.JSONSchemaProps, formats []string) bool {
	if s.Format != "" && !slices.Contains(formats, s.Format) {
		return false
	}
	if s.Type != "string" {
		return s.Pattern == "" && s.Enum == nil
	}
	if s.Pattern != "" {
		if _, err := regexp.Compile(s.Pattern); err != nil {
			return false
		}
	}
	for i := range s.Enum {
		if _, ok := text(&s.Enum[i]); !ok || slices.ContainsFunc(s.Enum[:i], func(other v1.JSON) bool { return string(other.Raw) == string(s.Enum[i].Raw) }) {
			return false
		}
	}
	return true
}

// plainDefault tells that a default is a value that the schema allows. Those of objects and lists are left to the
// rules.
func plainDefault(s *v1.JSONSchemaProps) bool {
	switch s.Type {
	case "boolean":
		return string(s.Default.Raw) == "true" || string(s.Default.Raw) == "false"
	case "integer":
		var n int32
		err := json.Unmarshal(s.Default.Raw, &n)
		return err == nil && string(s.Default.Raw) != "null" && (s.Minimum == nil || *s.Minimum <= float64(n)) && (s.Maximum == nil || float64(n) <= *s.Maximum)
	case "string":
		_, ok := text(s.Default)
		within := s.Enum == nil || slices.ContainsFunc(s.Enum, func(one v1.JSON) bool { return string(one.Raw) == string(s.Default.Raw) })
		return ok && within && s.Format == "" && s.Pattern == "" && s.MinLength == nil && s.MaxLength == nil
	}
	return false
}

// text returns a string that is written as it reads.
func text(j *v1.JSON) (string, bool) {
	raw := string(j.Raw)
	if len(raw) < 2 || raw[0] != '"' || strings.ContainsAny(raw, `\`) {
		return "", false
	}
	var out string
	err := json.Unmarshal(j.Raw, &out)
	return out, err == nil
}

func plainObject(s *v1.JSONSchemaProps) bool {
	if p := s.XPreserveUnknownFields; p != nil && !*p {
		return false
	}
	if t := s.XMapType; t != nil && *t != "atomic" && *t != "granular" {
		return false
	}
	if a := s.AdditionalProperties; a != nil {
		return s.Properties == nil && a.Allows && (a.Schema == nil || plainSchema(a.Schema))
	}
	for _, p := range s.Properties {
		if !plainSchema(&p) {
			return false
		}
	}
	return true
}

func plainList(s *v1.JSONSchemaProps) bool {
	if s.Items == nil || s.Items.Schema == nil || s.Items.JSONSchemas != nil || s.Required != nil || !plainSchema(s.Items.Schema) {
		return false
	}
	of := s.Items.Schema
	if s.XListType == nil {
		return true
	}
	switch *s.XListType {
	case "atomic":
		return true
	case "set":
		return !of.Nullable && of.Default == nil && of.Type != "object" && of.Type != "array"
	case "map":
		return len(s.XListMapKeys) > 0 && !of.Nullable && of.Default == nil && of.Type == "object" && plainKeys(of, s.XListMapKeys)
	}
	return false
}

// plainKeys tells that elements of a list can be told apart by these of their properties.
func plainKeys(of *v1.JSONSchemaProps, keys []string) bool {
	for i, key := range keys {
		p, ok := of.Properties[key]
		if !ok || p.Type == "object" || p.Type == "array" || p.Nullable || p.Default != nil || !slices.Contains(of.Required, key) || slices.Contains(keys[:i], key) {
			return false
		}
	}
	return true
}
