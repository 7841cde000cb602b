package apiextensions

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// warnings reports new parts of a definition that may not do what its author expects.
func warnings(_ context.Context, d, old *v1.CustomResourceDefinition) []string {
	if plain(d) {
		return nil
	}
	formats, sets := oddities(d)
	formats = distinct(formats)
	if old != nil {
		knownFormats, knownSets := oddities(old)
		known := func(all []string) func(string) bool {
			return func(w string) bool { return slices.Contains(all, w) }
		}
		formats, sets = slices.DeleteFunc(formats, known(knownFormats)), slices.DeleteFunc(sets, known(knownSets))
	}
	return append(formats, sets...)
}

// distinct removes duplicates.
func distinct(all []string) []string {
	said := map[string]bool{}
	return slices.DeleteFunc(all, func(text string) bool {
		before := said[text]
		said[text] = true
		return before
	})
}

// oddities returns formats that are not validated, and sets whose elements cannot be compared.
func oddities(d *v1.CustomResourceDefinition) (formats, sets []string) {
	odd := map[string]bool{}
	look := func(s *v1.JSONSchemaProps) {
		if s.Format != "" {
			of := &spec.Schema{SchemaProps: spec.SchemaProps{Format: s.Format, Type: []string{s.Type}}}
			for _, f := range schemavalidation.GetUnrecognizedFormats(of, environment.DefaultCompatibilityVersion()) {
				formats = append(formats, fmt.Sprintf("unrecognized format %q", f))
			}
		}
		if s.XListType != nil && *s.XListType == "set" && s.Items != nil && s.Items.Schema != nil {
			if t := s.Items.Schema.Type; t == "object" || t == "array" {
				odd[fmt.Sprintf("x-kubernetes-list-type: set for items of type %q is not supported by server-side apply or CEL validation rules", t)] = true
			}
		}
	}
	for i := range d.Spec.Versions {
		if s := d.Spec.Versions[i].Schema; s != nil && s.OpenAPIV3Schema != nil {
			visit(s.OpenAPIV3Schema, look)
		}
	}
	return formats, slices.Sorted(maps.Keys(odd))
}

// visit calls look for a schema and all schemas in it.
func visit(s *v1.JSONSchemaProps, look func(*v1.JSONSchemaProps)) {
	look(s)
	one := func(s *v1.JSONSchemaProps) {
		if s != nil {
			visit(s, look)
		}
	}
	several := func(all []v1.JSONSchemaProps) {
		for i := range all {
			visit(&all[i], look)
		}
	}
	named := func(all map[string]v1.JSONSchemaProps) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			s := all[name]
			visit(&s, look)
		}
	}
	if s.Items != nil {
		one(s.Items.Schema)
		several(s.Items.JSONSchemas)
	}
	several(s.AllOf)
	several(s.OneOf)
	several(s.AnyOf)
	one(s.Not)
	named(s.Properties)
	if s.AdditionalProperties != nil {
		one(s.AdditionalProperties.Schema)
	}
	named(s.PatternProperties)
	for _, name := range slices.Sorted(maps.Keys(s.Dependencies)) {
		one(s.Dependencies[name].Schema)
	}
	if s.AdditionalItems != nil {
		one(s.AdditionalItems.Schema)
	}
	named(s.Definitions)
}
