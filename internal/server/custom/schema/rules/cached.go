package rules

import (
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiserver/pkg/cel/common"
)

// cachedSchema is a schema for values of expressions, whose parts are made once.
type cachedSchema struct {
	*model.Structural
	properties map[string]common.Schema
	items      common.Schema
	additional common.SchemaOrBool
}

// Properties implements common.Schema.
func (c *cachedSchema) Properties() map[string]common.Schema { return c.properties }

// Items implements common.Schema.
func (c *cachedSchema) Items() common.Schema { return c.items }

// AdditionalProperties implements common.Schema.
func (c *cachedSchema) AdditionalProperties() common.SchemaOrBool { return c.additional }

type cachedSchemaOrBool struct {
	*model.StructuralOrBool
	schema common.Schema
}

// Schema implements common.SchemaOrBool.
func (c *cachedSchemaOrBool) Schema() common.Schema { return c.schema }

func cached(s *structural.Structural) common.Schema {
	c := &cachedSchema{Structural: &model.Structural{Structural: s}}
	if s.Properties != nil {
		c.properties = make(map[string]common.Schema, len(s.Properties))
		for name, p := range s.Properties {
			c.properties[name] = cached(&p)
		}
	}
	if s.Items != nil {
		c.items = cached(s.Items)
	}
	if a := s.AdditionalProperties; a != nil {
		all := &cachedSchemaOrBool{StructuralOrBool: &model.StructuralOrBool{StructuralOrBool: a}}
		if a.Structural != nil {
			all.schema = cached(a.Structural)
		}
		c.additional = all
	}
	return c
}
