// Package plan finds in one pass that nothing has to be done about an object: nothing is to be dropped, filled in or
// objected to.
//
// What is guaranteed: where a plan says yes, Kubernetes' published packages (k8s.io/apiextensions-apiserver) would
// change nothing in the object and find nothing wrong, CEL rules aside. What may not be assumed: that a no means
// anything. Whatever is unusual gets one, and the published packages decide, in their own words. Most objects are what
// their schema says, and one pass finds that without making a tree.
package plan

import (
	"regexp"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// Plan is what a structural schema says, for one pass. It never changes.
type Plan struct {
	root *node
}

// node is what is said of one value.
type node struct {
	kind       string // type; "" is any
	properties map[string]*node
	additional *node // of names that no property has
	items      *node
	defaults   int  // how many properties have one
	filled     bool // this one has a default
	nullable   bool
	preserve   bool
	intOrText  bool
	// unknown are values of which nothing is known. Of odd ones the schema demands what a plan does not look at, and
	// embedded ones are objects with metadata of their own.
	unknown, odd, embedded bool

	required               []string
	enum                   []any
	pattern                *regexp.Regexp
	format                 string
	least, most            *float64
	overLeast, underMost   bool
	minLength, maxLength   *int64
	minItems, maxItems     *int64
	minMembers, maxMembers *int64
	set                    bool
	keys                   []string // of a list whose elements are told apart by them
}

// Compile makes a plan. It is nil if there is no schema: then nothing is simple.
func Compile(s *structural.Structural) *Plan {
	if s == nil {
		return nil
	}
	root := compile(s)
	if meta := root.properties["metadata"]; meta != nil && !plainMetadata(s) {
		root.odd = true
	}
	return &Plan{root}
}

// plainMetadata tells that a schema says nothing of the metadata but that there is some.
func plainMetadata(s *structural.Structural) bool {
	m := s.Properties["metadata"]
	return len(m.Properties) == 0 && m.ValueValidation == nil && m.AdditionalProperties == nil
}

func compile(s *structural.Structural) *node {
	n := &node{
		kind: s.Type, nullable: s.Nullable, filled: s.Default.Object != nil,
		preserve: s.XPreserveUnknownFields, intOrText: s.XIntOrString, embedded: s.XEmbeddedResource,
	}
	if len(s.Properties) > 0 {
		n.properties = make(map[string]*node, len(s.Properties))
	}
	for name, p := range s.Properties {
		made := compile(&p)
		n.properties[name] = made
		if made.filled {
			n.defaults++
		}
	}
	if a := s.AdditionalProperties; a != nil {
		n.additional = &node{unknown: true}
		if a.Structural != nil {
			n.additional = compile(a.Structural)
		}
	}
	if s.Items != nil {
		n.items = compile(s.Items)
	}
	n.compileList(s)
	n.compileValidation(s)
	return n
}

func (n *node) compileList(s *structural.Structural) {
	if s.XListType == nil {
		return
	}
	switch *s.XListType {
	case "set":
		n.set = true
	case "map":
		n.keys = s.XListMapKeys
		for _, k := range n.keys {
			if key := n.items.properties[k]; key == nil || key.filled || key.nullable {
				n.odd = true
			}
		}
	}
}

func (n *node) compileValidation(s *structural.Structural) {
	v := s.ValueValidation
	if v == nil {
		return
	}
	n.required = v.Required
	n.least, n.overLeast, n.most, n.underMost = v.Minimum, v.ExclusiveMinimum, v.Maximum, v.ExclusiveMaximum
	n.minLength, n.maxLength, n.minItems, n.maxItems = v.MinLength, v.MaxLength, v.MinItems, v.MaxItems
	n.minMembers, n.maxMembers = v.MinProperties, v.MaxProperties
	for _, e := range v.Enum {
		switch e.Object.(type) {
		case string, int64, bool:
			n.enum = append(n.enum, e.Object)
		default:
			n.odd = true
		}
	}
	if v.Pattern != "" {
		compiled, err := regexp.Compile(v.Pattern)
		n.pattern, n.odd = compiled, n.odd || err != nil
	}
	n.compileFormat(v.Format)
	if v.UniqueItems || v.MultipleOf != nil || len(v.AllOf) > 0 || len(v.OneOf) > 0 || v.Not != nil || len(v.AnyOf) > 0 && !n.usualAnyOf(v) {
		n.odd = true
	}
	if n.intOrText && (n.enum != nil || n.pattern != nil || n.format != "" || n.least != nil || n.most != nil || n.minLength != nil || n.maxLength != nil) {
		n.odd = true
	}
}

// compileFormat keeps formats of texts that are checked. The bounds of integers are checked as the format says.
func (n *node) compileFormat(format string) {
	switch {
	case format == "":
	case n.kind == "integer" && (format == "int32" || format == "int64"):
		n.format = format
	case n.kind == "string" && strfmt.Default.ContainsName(format):
		n.format = format
	default:
		n.odd = true
	}
}

// usualAnyOf tells that the alternatives are what Kubernetes wants to be said of an integer or a string.
func (n *node) usualAnyOf(v *structural.ValueValidation) bool {
	if !n.intOrText || len(v.AnyOf) != 2 {
		return false
	}
	for i, kind := range []string{"integer", "string"} {
		a := v.AnyOf[i]
		if a.ForbiddenGenerics.Type != kind || len(a.Properties) > 0 || a.Items != nil || a.AdditionalProperties != nil ||
			a.Pattern != "" || a.Format != "" || len(a.Enum) > 0 || a.Minimum != nil || a.Maximum != nil || a.MinLength != nil || a.MaxLength != nil ||
			a.MultipleOf != nil || len(a.AllOf)+len(a.AnyOf)+len(a.OneOf) > 0 || a.Not != nil {
			return false
		}
	}
	return true
}
