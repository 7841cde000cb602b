package apiextensions

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// warnings reports new parts of a definition that may not do what its author expects.
func warnings(_ context.Context, d, old *v1.CustomResourceDefinition) []string {
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
	now, err := internal(d)
	if err != nil {
		return nil, nil
	}
	odd := map[string]bool{}
	look := func(s *apiextensions.JSONSchemaProps) bool {
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
		return false // go on
	}
	validation.HasSchemaWith(&now.Spec, func(s *apiextensions.JSONSchemaProps) bool { return validation.SchemaHas(s, look) })
	return formats, slices.Sorted(maps.Keys(odd))
}
