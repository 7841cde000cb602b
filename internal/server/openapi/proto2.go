package openapi

import (
	v2 "github.com/google/gnostic-models/openapiv2"
)

func schema2(s *Schema) *v2.Schema {
	out := &v2.Schema{
		Description: s.Description, Format: s.Format, Required: s.Required, VendorExtension: extensions2(s.Extensions),
	}
	if s.Ref != "" {
		out.XRef = "#/definitions/" + s.Ref
	}
	if s.Type != "" {
		out.Type = &v2.TypeItem{Value: []string{s.Type}}
	}
	if s.Default != nil {
		out.Default = &v2.Any{Yaml: string(s.Default) + "\n"}
	}
	for _, e := range s.Enum {
		out.Enum = append(out.Enum, &v2.Any{Yaml: string(e) + "\n"})
	}
	if s.Items != nil {
		out.Items = &v2.ItemsItem{Schema: []*v2.Schema{schema2(s.Items)}}
	}
	if s.Additional != nil {
		out.AdditionalProperties = &v2.AdditionalPropertiesItem{Oneof: &v2.AdditionalPropertiesItem_Schema{Schema: schema2(s.Additional)}}
	}
	if len(s.Properties) > 0 {
		out.Properties = &v2.Properties{}
		for i := range s.Properties {
			out.Properties.AdditionalProperties = append(out.Properties.AdditionalProperties,
				&v2.NamedSchema{Name: s.Properties[i].Name, Value: schema2(&s.Properties[i].Schema)})
		}
	}
	return out
}

func extensions2(list []Extension) (out []*v2.NamedAny) {
	for _, e := range list {
		out = append(out, &v2.NamedAny{Name: e.Name, Value: &v2.Any{Yaml: string(e.Value) + "\n"}})
	}
	return out
}

// place assigns each operation to the field for its method.
func place[O any](operations []Operation, describe func(*Operation) O, places map[string]*O) {
	for i := range operations {
		if at := places[operations[i].Method]; at != nil {
			*at = describe(&operations[i])
		}
	}
}

func path2(p *Path) *v2.NamedPathItem {
	item := &v2.PathItem{Parameters: parameters2(p.Parameters)}
	place(p.Operations, operation2, map[string]**v2.Operation{
		"get": &item.Get, "put": &item.Put, "post": &item.Post, "delete": &item.Delete,
		"options": &item.Options, "head": &item.Head, "patch": &item.Patch,
	})
	return &v2.NamedPathItem{Name: p.Path, Value: item}
}

func operation2(o *Operation) *v2.Operation {
	out := &v2.Operation{
		Tags: []string{o.Tag}, Description: o.Description, OperationId: o.ID, Schemes: []string{"https"},
		Consumes: o.Consumes, Produces: o.Produces, Responses: &v2.Responses{}, VendorExtension: extensions2(o.Extensions),
	}
	if out.Consumes == nil {
		out.Consumes = anyType
	}
	if o.Body != nil {
		out.Parameters = append(out.Parameters, parameter2(&v2.Parameter{Oneof: &v2.Parameter_BodyParameter{
			BodyParameter: &v2.BodyParameter{Name: "body", In: "body", Required: o.BodyRequired, Schema: schema2(o.Body)}}}))
	}
	out.Parameters = append(out.Parameters, parameters2(o.Parameters)...)
	for _, a := range o.Answers {
		r := &v2.Response{Description: a.Description}
		if a.Schema != nil {
			r.Schema = &v2.SchemaItem{Oneof: &v2.SchemaItem_Schema{Schema: schema2(a.Schema)}}
		}
		out.Responses.ResponseCode = append(out.Responses.ResponseCode, &v2.NamedResponseValue{
			Name: a.Code, Value: &v2.ResponseValue{Oneof: &v2.ResponseValue_Response{Response: r}}})
	}
	return out
}

func parameters2(list []Parameter) (out []*v2.ParametersItem) {
	for _, p := range list {
		if ref := shared()[p]; ref != "" {
			out = append(out, &v2.ParametersItem{Oneof: &v2.ParametersItem_JsonReference{JsonReference: &v2.JsonReference{XRef: sharedPrefix + ref}}})
			continue
		}
		out = append(out, parameter2(plain2(p)))
	}
	return out
}

// shared2 are the parameters to which paths refer.
func shared2() *v2.ParameterDefinitions {
	names, out := shared(), &v2.ParameterDefinitions{}
	for _, p := range inOrder() {
		out.AdditionalProperties = append(out.AdditionalProperties, &v2.NamedParameter{Name: names[p], Value: plain2(p)})
	}
	return out
}

// plain2 describes a parameter that is not a body.
func plain2(p Parameter) *v2.Parameter {
	one := &v2.NonBodyParameter{Oneof: &v2.NonBodyParameter_QueryParameterSubSchema{QueryParameterSubSchema: &v2.QueryParameterSubSchema{
		Name: p.Name, In: "query", Description: p.Description, Type: p.Type, UniqueItems: true}}}
	if p.InPath {
		one.Oneof = &v2.NonBodyParameter_PathParameterSubSchema{PathParameterSubSchema: &v2.PathParameterSubSchema{
			Name: p.Name, In: "path", Description: p.Description, Type: p.Type, UniqueItems: true, Required: true}}
	}
	return &v2.Parameter{Oneof: &v2.Parameter_NonBodyParameter{NonBodyParameter: one}}
}

func parameter2(p *v2.Parameter) *v2.ParametersItem {
	return &v2.ParametersItem{Oneof: &v2.ParametersItem_Parameter{Parameter: p}}
}
