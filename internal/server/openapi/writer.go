package openapi

import (
	"encoding/json"
	"fmt"
	"io"

	v2 "github.com/google/gnostic-models/openapiv2"
	v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
)

// form is an encoding of a document.
type form struct {
	v2    bool
	proto bool
}

// writer writes a document part by part.
type writer interface {
	version2() bool
	begin(version string) error
	path(*Path) error
	schema(name string, s *Schema) error
	// foreignPaths and foreignSchemas write what other servers have: paths after all others, and schemas after all
	// others.
	foreignPaths([]part) error
	foreignSchemas([]part) error
	end() error
}

func (f form) writer(to io.Writer) writer {
	if f.proto {
		return &protoWriter{to: to, v2: f.v2}
	}
	return &jsonWriter{to: to, text: jsonText{v2: f.v2}}
}

// resume returns a writer for what comes after other paths or, if schemas is true, after other schemas.
func (f form) resume(to io.Writer, schemas bool) writer {
	if f.proto {
		return f.writer(to)
	}
	return &jsonWriter{to: to, text: jsonText{v2: f.v2, last: '}'}, schemas: schemas}
}

func (w *jsonWriter) version2() bool  { return w.text.v2 }
func (w *protoWriter) version2() bool { return w.v2 }

// jsonWriter writes paths first and schemas after them.
type jsonWriter struct {
	to      io.Writer
	text    jsonText
	schemas bool
}

const productTitle = "Kubernetes"

func (w *jsonWriter) flush() error {
	_, err := w.to.Write(w.text.take())
	return err
}

func (w *jsonWriter) begin(version string) error {
	j := &w.text
	j.open('{')
	if j.v2 {
		j.text("swagger", "2.0")
	} else {
		j.text("openapi", "3.0.0")
	}
	j.raw("info", encoded(map[string]string{"title": productTitle, "version": version}))
	j.key("paths")
	j.open('{')
	return w.flush()
}

func (w *jsonWriter) path(p *Path) error {
	w.text.path(p)
	return w.flush()
}

func (w *jsonWriter) schema(name string, s *Schema) error {
	if !w.schemas {
		w.startSchemas()
	}
	w.text.key(name)
	w.text.schema(s)
	return w.flush()
}

func (w *jsonWriter) foreignPaths(all []part) error {
	for _, p := range all {
		w.text.raw(p.name, p.value)
	}
	return w.flush()
}

func (w *jsonWriter) foreignSchemas(all []part) error { return w.foreignPaths(all) }

func (w *jsonWriter) startSchemas() {
	w.schemas = true
	j := &w.text
	j.close('}')
	if j.v2 {
		j.key("definitions")
		j.open('{')
		return
	}
	j.key("components")
	j.open('{')
	j.key("schemas")
	j.open('{')
}

var bearer = map[string]string{"type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header"}

const bearerName = "BearerToken"

func (w *jsonWriter) end() error {
	j := &w.text
	if j.close('}'); !w.schemas && !j.v2 {
		j.key("components")
		j.open('{')
	}
	if j.v2 {
		j.shared()
		j.raw("securityDefinitions", encoded(map[string]any{bearerName: bearer}))
		j.raw("security", json.RawMessage(`[{"`+bearerName+`":[]}]`))
	} else {
		j.raw("securitySchemes", encoded(map[string]any{bearerName: bearer}))
		j.close('}')
	}
	j.close('}')
	return w.flush()
}

// protoWriter writes a message for each part: concatenated messages are one merged message to the reader.
type protoWriter struct {
	to io.Writer
	v2 bool
	b  []byte
}

func (w *protoWriter) write(m proto.Message) error {
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(w.b[:0], m)
	if err != nil {
		return fmt.Errorf("encode a part of the document: %w", err)
	}
	w.b = b
	_, err = w.to.Write(b)
	return err
}

func (w *protoWriter) begin(version string) error {
	if w.v2 {
		return w.write(&v2.Document{Swagger: "2.0", Info: &v2.Info{Title: productTitle, Version: version}, Paths: &v2.Paths{}})
	}
	return w.write(&v3.Document{Openapi: "3.0.0", Info: &v3.Info{Title: productTitle, Version: version}, Paths: &v3.Paths{}})
}

func (w *protoWriter) path(p *Path) error {
	if w.v2 {
		return w.write(&v2.Document{Paths: &v2.Paths{Path: []*v2.NamedPathItem{path2(p)}}})
	}
	return w.write(&v3.Document{Paths: &v3.Paths{Path: []*v3.NamedPathItem{path3(p)}}})
}

func (w *protoWriter) schema(name string, s *Schema) error {
	if w.v2 {
		return w.write(&v2.Document{Definitions: &v2.Definitions{AdditionalProperties: []*v2.NamedSchema{{Name: name, Value: schema2(s)}}}})
	}
	list := &v3.SchemasOrReferences{AdditionalProperties: []*v3.NamedSchemaOrReference{{Name: name, Value: schema3(s)}}}
	return w.write(&v3.Document{Components: &v3.Components{Schemas: list}})
}

// read makes a message of a part of a document of version 2 that is JSON.
func (w *protoWriter) read(of string, all []part) (*v2.Document, error) {
	values := map[string]json.RawMessage{}
	for _, p := range all {
		values[p.name] = p.value
	}
	text := encoded(map[string]any{"swagger": "2.0", "info": map[string]string{"title": "", "version": ""}, "paths": struct{}{}, of: values})
	d, err := v2.ParseDocument(text)
	if err != nil {
		return nil, fmt.Errorf("the %s of other servers: %w", of, err)
	}
	return d, nil
}

func (w *protoWriter) foreignPaths(all []part) error {
	if len(all) == 0 {
		return nil
	}
	d, err := w.read("paths", all)
	if err != nil {
		return err
	}
	return w.write(&v2.Document{Paths: d.Paths})
}

func (w *protoWriter) foreignSchemas(all []part) error {
	if len(all) == 0 {
		return nil
	}
	d, err := w.read("definitions", all)
	if err != nil {
		return err
	}
	return w.write(&v2.Document{Definitions: d.Definitions})
}

func (w *protoWriter) end() error {
	if w.v2 {
		if err := w.write(&v2.Document{Parameters: shared2()}); err != nil {
			return err
		}
		key := &v2.ApiKeySecurity{Type: bearer["type"], Description: bearer["description"], Name: bearer["name"], In: bearer["in"]}
		return w.write(&v2.Document{
			Security: []*v2.SecurityRequirement{{AdditionalProperties: []*v2.NamedStringArray{{Name: bearerName, Value: &v2.StringArray{}}}}},
			SecurityDefinitions: &v2.SecurityDefinitions{AdditionalProperties: []*v2.NamedSecurityDefinitionsItem{{
				Name: bearerName, Value: &v2.SecurityDefinitionsItem{Oneof: &v2.SecurityDefinitionsItem_ApiKeySecurity{ApiKeySecurity: key}}}}},
		})
	}
	scheme := &v3.SecurityScheme{Type: bearer["type"], Description: bearer["description"], Name: bearer["name"], In: bearer["in"]}
	return w.write(&v3.Document{Components: &v3.Components{SecuritySchemes: &v3.SecuritySchemesOrReferences{
		AdditionalProperties: []*v3.NamedSecuritySchemeOrReference{{Name: bearerName,
			Value: &v3.SecuritySchemeOrReference{Oneof: &v3.SecuritySchemeOrReference_SecurityScheme{SecurityScheme: scheme}}}}}}})
}
