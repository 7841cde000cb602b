package openapi

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Schema describes a value. The zero Schema allows anything.
type Schema struct {
	// Ref names another schema of the document. In version 3 it must not have siblings, so a schema that has both uses
	// allOf.
	Ref         string
	Description string
	Type        string
	Format      string
	// OneOf lists the types, in version 3, if there are several.
	OneOf      []string
	Default    json.RawMessage
	Enum       []json.RawMessage
	Required   []string
	Properties []Property // sorted by name
	Items      *Schema
	Additional *Schema // of a map's values
	Extensions []Extension
	// Demands are validations. Only JSON documents contain them.
	Demands []Extension
}

// Property is a named member of an object.
type Property struct {
	Name string
	Schema
}

// Extension is one of Kubernetes' keywords: "x-kubernetes-…".
type Extension struct {
	Name  string
	Value json.RawMessage
}

// extend adds an extension. Its value must be of a type that can always be encoded.
func (s *Schema) extend(name string, value any) {
	s.Extensions = append(s.Extensions, extension(name, value))
}

func extension(name string, value any) Extension { return Extension{name, encoded(value)} }

// encoded encodes values of types that cannot fail: strings, numbers, and lists and structs of them.
func encoded(value any) json.RawMessage {
	b, err := json.Marshal(value)
	if err != nil {
		panic("openapi: " + err.Error())
	}
	return b
}

// siblings reports whether the schema has more than its reference.
func (s *Schema) siblings() bool {
	return s.Description != "" || s.Default != nil || len(s.Extensions) > 0
}

// gvk names a kind, with its fields in the order of Kubernetes' documents.
type gvk struct {
	Group   string `json:"group"`
	Kind    string `json:"kind"`
	Version string `json:"version"`
}

const gvkExtension = "x-kubernetes-group-version-kind"

func gvkOf(k schema.GroupVersionKind) gvk { return gvk{k.Group, k.Kind, k.Version} }

// Path is one path and its operations.
type Path struct {
	Path       string
	Parameters []Parameter
	Operations []Operation
}

// Operation is one method of a path.
type Operation struct {
	Method      string // "get"
	ID          string
	Tag         string
	Description string
	Parameters  []Parameter
	// Consumes are the media types of the body. Body is its schema; nil means that there is no body.
	Consumes     []string
	Body         *Schema
	BodyRequired bool
	Produces     []string
	Answers      []Answer
	Extensions   []Extension
}

// Parameter is a parameter of the path or the query.
type Parameter struct {
	Name, Description string
	InPath            bool
	Type              string
}

// Answer is the response for a status code; a nil Schema means no body.
type Answer struct {
	Code        string
	Description string
	Schema      *Schema
}
