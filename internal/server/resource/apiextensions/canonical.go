package apiextensions

import (
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// defaults sets the defaults of a definition, and writes the values in its schemas in one way: without white space,
// names in order. Who sends a definition with them indented changes nothing then.
func defaults(d *v1.CustomResourceDefinition) {
	v1.SetObjectDefaults_CustomResourceDefinition(d)
	for i := range d.Spec.Versions {
		if s := d.Spec.Versions[i].Schema; s != nil {
			canonicalSchema(s.OpenAPIV3Schema)
		}
	}
}

func canonicalSchema(s *v1.JSONSchemaProps) {
	if s == nil {
		return
	}
	canonicalValue(s.Default)
	canonicalValue(s.Example)
	for i := range s.Enum {
		canonicalValue(&s.Enum[i])
	}
	for _, all := range [][]v1.JSONSchemaProps{s.AllOf, s.OneOf, s.AnyOf} {
		for i := range all {
			canonicalSchema(&all[i])
		}
	}
	for _, all := range []map[string]v1.JSONSchemaProps{s.Properties, s.PatternProperties, s.Definitions} {
		for _, one := range all { // a copy, whose values are the map's
			canonicalSchema(&one)
		}
	}
	canonicalSchema(s.Not)
	if s.Items != nil {
		canonicalSchema(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		canonicalSchema(s.AdditionalProperties.Schema)
	}
}

// canonicalValue writes an object or a list as encoding/json does. Other values can be written in few ways.
func canonicalValue(j *v1.JSON) {
	if j == nil || len(j.Raw) == 0 || j.Raw[0] != '{' && j.Raw[0] != '[' {
		return
	}
	var value any
	if json.Unmarshal(j.Raw, &value) != nil {
		return // the validation refuses it
	}
	if text, err := json.Marshal(value); err == nil {
		j.Raw = text
	}
}
