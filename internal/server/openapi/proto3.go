package openapi

import (
	"encoding/json"

	v3 "github.com/google/gnostic-models/openapiv3"
)

func schema3(s *Schema) *v3.SchemaOrReference {
	if s.Ref != "" && !s.siblings() {
		return reference3(s.Ref)
	}
	out := &v3.Schema{
		Description: s.Description, Type: s.Type, Format: s.Format, Required: s.Required, Default: default3(s.Default),
		SpecificationExtension: extensions3(s.Extensions),
	}
	if s.Ref != "" {
		out.AllOf = []*v3.SchemaOrReference{reference3(s.Ref)}
	}
	if len(s.OneOf) > 0 {
		out.Type = ""
	}
	for _, t := range s.OneOf {
		out.OneOf = append(out.OneOf, whole3(&v3.Schema{Type: t}))
	}
	for _, e := range s.Enum {
		out.Enum = append(out.Enum, &v3.Any{Yaml: string(e) + "\n"})
	}
	if s.Items != nil {
		out.Items = &v3.ItemsItem{SchemaOrReference: []*v3.SchemaOrReference{schema3(s.Items)}}
	}
	if s.Additional != nil {
		out.AdditionalProperties = &v3.AdditionalPropertiesItem{
			Oneof: &v3.AdditionalPropertiesItem_SchemaOrReference{SchemaOrReference: schema3(s.Additional)}}
	}
	if len(s.Properties) > 0 {
		out.Properties = &v3.Properties{}
		for i := range s.Properties {
			out.Properties.AdditionalProperties = append(out.Properties.AdditionalProperties,
				&v3.NamedSchemaOrReference{Name: s.Properties[i].Name, Value: schema3(&s.Properties[i].Schema)})
		}
	}
	return whole3(out)
}

func whole3(s *v3.Schema) *v3.SchemaOrReference {
	return &v3.SchemaOrReference{Oneof: &v3.SchemaOrReference_Schema{Schema: s}}
}

func reference3(name string) *v3.SchemaOrReference {
	return &v3.SchemaOrReference{Oneof: &v3.SchemaOrReference_Reference{Reference: &v3.Reference{XRef: "#/components/schemas/" + name}}}
}

// default3 has fields for strings, numbers and booleans. For other defaults it says only that there is one.
func default3(text json.RawMessage) *v3.DefaultType {
	var value any
	if text == nil || json.Unmarshal(text, &value) != nil {
		return nil
	}
	switch v := value.(type) {
	case string:
		return &v3.DefaultType{Oneof: &v3.DefaultType_String_{String_: v}}
	case bool:
		return &v3.DefaultType{Oneof: &v3.DefaultType_Boolean{Boolean: v}}
	case float64:
		return &v3.DefaultType{Oneof: &v3.DefaultType_Number{Number: v}}
	}
	return &v3.DefaultType{}
}

// Values of extensions are YAML, of which JSON is a subset.
func extensions3(list []Extension) (out []*v3.NamedAny) {
	for _, e := range list {
		out = append(out, &v3.NamedAny{Name: e.Name, Value: &v3.Any{Yaml: string(e.Value) + "\n"}})
	}
	return out
}

func path3(p *Path) *v3.NamedPathItem {
	item := &v3.PathItem{Parameters: parameters3(p.Parameters)}
	place(p.Operations, operation3, map[string]**v3.Operation{
		"get": &item.Get, "put": &item.Put, "post": &item.Post, "delete": &item.Delete,
		"options": &item.Options, "head": &item.Head, "patch": &item.Patch,
	})
	return &v3.NamedPathItem{Name: p.Path, Value: item}
}

func operation3(o *Operation) *v3.Operation {
	out := &v3.Operation{
		Tags: []string{o.Tag}, Description: o.Description, OperationId: o.ID, Parameters: parameters3(o.Parameters),
		Responses: &v3.Responses{}, SpecificationExtension: extensions3(o.Extensions),
	}
	if o.Body != nil {
		out.RequestBody = &v3.RequestBodyOrReference{Oneof: &v3.RequestBodyOrReference_RequestBody{
			RequestBody: &v3.RequestBody{Content: content3(o.Consumes, o.Body), Required: o.BodyRequired}}}
	}
	for _, a := range o.Answers {
		r := &v3.Response{Description: a.Description}
		if a.Schema != nil {
			r.Content = content3(o.Produces, a.Schema)
		}
		out.Responses.ResponseOrReference = append(out.Responses.ResponseOrReference, &v3.NamedResponseOrReference{
			Name: a.Code, Value: &v3.ResponseOrReference{Oneof: &v3.ResponseOrReference_Response{Response: r}}})
	}
	return out
}

func content3(types []string, s *Schema) *v3.MediaTypes {
	out := &v3.MediaTypes{}
	for _, t := range types {
		out.AdditionalProperties = append(out.AdditionalProperties, &v3.NamedMediaType{Name: t, Value: &v3.MediaType{Schema: schema3(s)}})
	}
	return out
}

func parameters3(list []Parameter) (out []*v3.ParameterOrReference) {
	for i := range list {
		p := &list[i]
		out = append(out, &v3.ParameterOrReference{Oneof: &v3.ParameterOrReference_Parameter{Parameter: &v3.Parameter{
			Name: p.Name, In: p.place(), Description: p.Description, Required: p.InPath,
			Schema: whole3(&v3.Schema{Type: p.Type, UniqueItems: true}),
		}}})
	}
	return out
}
