package custom

import (
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/millrace/millrace/internal/server/resource"
)

// Schema is what the definition of a kind says of its objects, for those who describe it; nil if it says nothing.
func (d *Definitions) Schema(f *resource.Face) *v1.JSONSchemaProps {
	served := d.definitionOf(f.Of)
	if served == nil {
		return nil
	}
	def, err := served.read()
	if err != nil {
		return nil
	}
	for _, v := range def.Spec.Versions {
		if v.Name == f.Version && v.Schema != nil {
			return v.Schema.OpenAPIV3Schema
		}
	}
	return nil
}

func (d *Definitions) definitionOf(k *resource.Kind) *definition {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.known[k.Resource+"."+k.Group]; r != nil {
		return r.served
	}
	return nil
}
