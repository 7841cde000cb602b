package openapi

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Schema describes a value. The zero Schema allows anything.
type Schema struct {
	// Ref names another schema of the document. In version 3 it may not have siblings, so that a schema which has both is
	// written with allOf.
	Ref         string
	Description string
	Type        string
	Format      string
	// OneOf lists types, in version 3, when there is more than one.
	OneOf      []string
	Default    json.RawMessage
	Enum       []json.RawMessage
	Required   []string
	Properties []Property // by name
	Items      *Schema
	Additional *Schema // of a map's values
	Extensions []Extension
	// Demands are validations, which only documents of version 3 show, and those in JSON alone.
	Demands []Extension
}

// Property is a named part of an object.
type Property struct {
	Name string
	Schema
}

// Extension is one of Kubernetes' own keywords: "x-kubernetes-…".
type Extension struct {
	Name  string
	Value json.RawMessage
}

// extend adds a keyword. Values are of types that can always be encoded.
func (s *Schema) extend(name string, value any) {
	s.Extensions = append(s.Extensions, extension(name, value))
}

func extension(name string, value any) Extension { return Extension{name, encoded(value)} }

// encoded is for values that can always be encoded: strings, numbers, and lists and structs of them.
func encoded(value any) json.RawMessage {
	b, err := json.Marshal(value)
	if err != nil {
		panic("openapi: " + err.Error())
	}
	return b
}

// siblings tells whether the schema says more than its reference.
func (s *Schema) siblings() bool {
	return s.Description != "" || s.Default != nil || len(s.Extensions) > 0
}

// gvk names a kind in the order of letters that Kubernetes' documents have.
type gvk struct {
	Group   string `json:"group"`
	Kind    string `json:"kind"`
	Version string `json:"version"`
}

const gvkExtension = "x-kubernetes-group-version-kind"

func gvkOf(k schema.GroupVersionKind) gvk { return gvk{k.Group, k.Kind, k.Version} }

// Path is what can be done at one path.
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
	// Consumes are the media types of the body, Body what it holds; a nil Body means there is none.
	Consumes     []string
	Body         *Schema
	BodyRequired bool
	Produces     []string
	Answers      []Answer
	Extensions   []Extension
}

// Parameter is part of the path or of the query.
type Parameter struct {
	Name, Description string
	InPath            bool
	Type              string
}

// Answer is what comes with a status code; a nil Schema means no body.
type Answer struct {
	Code        string
	Description string
	Schema      *Schema
}
