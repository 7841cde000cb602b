package openapi

import (
	"encoding/json"
	"strconv"

	"github.com/millrace/millrace/internal/jsontext"
)

// jsonText writes a document of either version as JSON, part by part.
type jsonText struct {
	b    []byte
	last byte // the last byte that take returned
	v2   bool
}

// take returns what has been written since the last call.
func (j *jsonText) take() []byte {
	b := j.b
	if len(b) > 0 {
		j.last = b[len(b)-1]
	}
	j.b = j.b[:0]
	return b
}

func (j *jsonText) prefix() string {
	if j.v2 {
		return "#/definitions/"
	}
	return "#/components/schemas/"
}

// quote writes a JSON string.
func (j *jsonText) quote(s string) { j.b = jsontext.Quote(j.b, s) }

// key begins a member of an object.
func (j *jsonText) key(name string) {
	j.comma()
	j.quote(name)
	j.b = append(j.b, ':')
}

// comma writes a comma, unless an object or a list has just begun.
func (j *jsonText) comma() {
	c := j.last
	if n := len(j.b); n > 0 {
		c = j.b[n-1]
	}
	if c != '{' && c != '[' && c != ':' {
		j.b = append(j.b, ',')
	}
}

func (j *jsonText) open(c byte)  { j.b = append(j.b, c) }
func (j *jsonText) close(c byte) { j.b = append(j.b, c) }

func (j *jsonText) text(name, value string) {
	if value != "" {
		j.key(name)
		j.quote(value)
	}
}

func (j *jsonText) raw(name string, value json.RawMessage) {
	j.key(name)
	j.b = append(j.b, value...)
}

func (j *jsonText) texts(name string, values []string) {
	if len(values) == 0 {
		return
	}
	j.key(name)
	j.open('[')
	for _, v := range values {
		j.comma()
		j.quote(v)
	}
	j.close(']')
}

func (j *jsonText) extensions(list []Extension) {
	for _, e := range list {
		j.raw(e.Name, e.Value)
	}
}

func (j *jsonText) schema(s *Schema) {
	j.open('{')
	j.members(s)
	j.close('}')
}

func (j *jsonText) members(s *Schema) {
	switch {
	case s.Ref == "":
	case j.v2 || !s.siblings():
		j.text("$ref", j.prefix()+s.Ref)
	default:
		j.raw("allOf", encoded([]map[string]string{{"$ref": j.prefix() + s.Ref}}))
	}
	j.text("description", s.Description)
	if !j.v2 && len(s.OneOf) > 0 {
		j.oneOf(s.OneOf)
	} else {
		j.text("type", s.Type)
	}
	j.text("format", s.Format)
	if s.Default != nil {
		j.raw("default", s.Default)
	}
	if len(s.Enum) > 0 {
		j.raw("enum", encoded(s.Enum))
	}
	j.texts("required", s.Required)
	if s.Items != nil {
		j.key("items")
		j.schema(s.Items)
	}
	if s.Additional != nil {
		j.key("additionalProperties")
		j.schema(s.Additional)
	}
	if len(s.Properties) > 0 {
		j.key("properties")
		j.open('{')
		for i := range s.Properties {
			j.key(s.Properties[i].Name)
			j.schema(&s.Properties[i].Schema)
		}
		j.close('}')
	}
	j.extensions(s.Demands)
	j.extensions(s.Extensions)
}

func (j *jsonText) oneOf(types []string) {
	var list []map[string]string
	for _, t := range types {
		list = append(list, map[string]string{"type": t})
	}
	j.raw("oneOf", encoded(list))
}

// path writes a member of "paths".
func (j *jsonText) path(p *Path) {
	j.key(p.Path)
	j.open('{')
	for i := range p.Operations {
		j.operation(&p.Operations[i])
	}
	if len(p.Parameters) > 0 {
		j.key("parameters")
		j.parameters(p.Parameters, nil)
	}
	j.close('}')
}

func (j *jsonText) operation(o *Operation) {
	j.key(o.Method)
	j.open('{')
	j.texts("tags", []string{o.Tag})
	j.text("description", o.Description)
	j.text("operationId", o.ID)
	switch {
	case j.v2:
		consumes := o.Consumes
		if consumes == nil {
			consumes = anyType
		}
		j.texts("consumes", consumes)
		j.texts("produces", o.Produces)
		j.texts("schemes", []string{"https"})
	case o.Body != nil:
		j.body(o)
	}
	if len(o.Parameters) > 0 || j.v2 && o.Body != nil {
		j.key("parameters")
		j.parameters(o.Parameters, o)
	}
	j.key("responses")
	j.open('{')
	for i := range o.Answers {
		j.answer(&o.Answers[i], o.Produces)
	}
	j.close('}')
	j.extensions(o.Extensions)
	j.close('}')
}

// body writes the request body, which version 3 has instead of a body parameter.
func (j *jsonText) body(o *Operation) {
	j.key("requestBody")
	j.open('{')
	j.content(o.Consumes, o.Body)
	if o.BodyRequired {
		j.raw("required", json.RawMessage("true"))
	}
	j.close('}')
}

func (j *jsonText) content(types []string, s *Schema) {
	j.key("content")
	j.open('{')
	for _, t := range types {
		j.key(t)
		j.open('{')
		j.key("schema")
		j.schema(s)
		j.close('}')
	}
	j.close('}')
}

func (j *jsonText) answer(a *Answer, produces []string) {
	j.key(a.Code)
	j.open('{')
	j.text("description", a.Description)
	switch {
	case a.Schema == nil:
	case j.v2:
		j.key("schema")
		j.schema(a.Schema)
	default:
		j.content(produces, a.Schema)
	}
	j.close('}')
}

// parameters writes a list of parameters. In version 2 it includes the body of the operation of.
func (j *jsonText) parameters(list []Parameter, of *Operation) {
	j.open('[')
	if j.v2 && of != nil && of.Body != nil {
		j.open('{')
		j.text("name", "body")
		j.text("in", "body")
		if of.BodyRequired {
			j.raw("required", json.RawMessage("true"))
		}
		j.key("schema")
		j.schema(of.Body)
		j.close('}')
	}
	for i := range list {
		j.comma()
		if ref := shared()[list[i]]; j.v2 && ref != "" {
			j.open('{')
			j.text("$ref", sharedPrefix+ref)
			j.close('}')
			continue
		}
		j.parameter(&list[i])
	}
	j.close(']')
}

// shared writes the parameters to which paths refer.
func (j *jsonText) shared() {
	j.key("parameters")
	j.open('{')
	names := shared()
	for _, p := range inOrder() {
		j.key(names[p])
		j.parameter(&p)
	}
	j.close('}')
}

func (j *jsonText) parameter(p *Parameter) {
	j.open('{')
	j.text("name", p.Name)
	j.text("in", p.place())
	j.text("description", p.Description)
	if p.InPath {
		j.raw("required", json.RawMessage(strconv.FormatBool(true)))
	}
	if j.v2 {
		j.raw("uniqueItems", json.RawMessage("true"))
		j.text("type", p.Type)
	} else {
		j.key("schema")
		j.open('{')
		j.text("type", p.Type)
		j.raw("uniqueItems", json.RawMessage("true"))
		j.close('}')
	}
	j.close('}')
}

func (p *Parameter) place() string {
	if p.InPath {
		return "path"
	}
	return "query"
}
