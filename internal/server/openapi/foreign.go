package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	v2 "github.com/google/gnostic-models/openapiv2"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Foreign is what another server says of itself in version 2.
type Foreign struct {
	// Group is the API group whose paths are taken.
	Group string
	// Tag changes with the text.
	Tag string
	// Text is the document, as JSON. One that cannot be read is left out.
	Text []byte
}

// part is a path or a schema by its name.
type part struct {
	name  string
	value json.RawMessage
}

// fitted is what fits into a document beside what it has.
type fitted struct{ paths, schemas []part }

const (
	definitionPrefix = "#/definitions/"
	parameterPrefix  = "#/parameters/"
	kindsKey         = "x-kubernetes-group-version-kind"
)

// fitter gathers what other servers have. A schema that has the name of another one, and says something else, gets a
// name of its own.
type fitter struct {
	paths  map[string]bool // that are there already
	own    *schemas
	others map[string]any // schemas of other servers, by the names that they have got
	out    fitted
}

func fit(all []Foreign, paths map[string]bool, own *schemas) fitted {
	f := &fitter{paths: paths, own: own, others: map[string]any{}}
	for i := range all {
		f.add(&all[i])
	}
	for _, name := range slices.Sorted(maps.Keys(f.others)) {
		f.out.schemas = append(f.out.schemas, part{name, encoded(f.others[name])})
	}
	return f.out
}

func (f *fitter) add(one *Foreign) {
	var d struct {
		Paths       map[string]any `json:"paths"`
		Definitions map[string]any `json:"definitions"`
		Parameters  map[string]any `json:"parameters"`
	}
	if unmarshal(one.Text, &d) != nil || !readable(one.Text) {
		return // clients could not read the whole any more
	}
	root := "/apis/" + one.Group
	taken := map[string]any{}
	for path, item := range d.Paths {
		if (path == root || strings.HasPrefix(path, root+"/")) && !f.paths[path] {
			taken[path] = inline(item, d.Parameters)
		}
	}
	names := f.place(reached(taken, d.Definitions), d.Definitions)
	for _, path := range slices.Sorted(maps.Keys(taken)) {
		f.paths[path] = true
		rename(taken[path], names)
		f.out.paths = append(f.out.paths, part{path, encoded(taken[path])})
	}
}

// readable tells whether clients can read a document, by the two libraries that they use for that. One of them panics
// at some texts.
func readable(text []byte) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	if json.Unmarshal(text, &spec.Swagger{}) != nil {
		return false
	}
	_, err := v2.ParseDocument(text)
	return err == nil
}

// place gives schemas names, and takes in those that are not there already. It returns the names of those that have got
// another one.
func (f *fitter) place(reached []string, from map[string]any) map[string]string {
	names := map[string]string{}
	for _, name := range reached {
		at := name
		for n := 2; ; n++ {
			there, ok := f.there(at)
			if !ok || alike(there, from[name]) {
				break
			}
			at = fmt.Sprintf("%s_v%d", name, n)
		}
		if at != name {
			names[name] = at
		}
	}
	for _, name := range reached {
		at := name
		if other, renamed := names[name]; renamed {
			at = other
		}
		if _, ok := f.there(at); !ok {
			rename(from[name], names)
			f.others[at] = from[name]
		}
	}
	return names
}

// there is the schema that has a name.
func (f *fitter) there(name string) (any, bool) {
	if other, ok := f.others[name]; ok {
		return other, true
	}
	if !f.own.has(name) {
		return nil, false
	}
	j := jsonText{v2: true}
	j.schema(f.own.define(name))
	var out any
	if err := unmarshal(j.take(), &out); err != nil {
		panic(fmt.Sprintf("openapi: the schema %s is no JSON: %v", name, err))
	}
	return out, true
}

// alike tells whether two schemas say the same, whatever kinds they are of.
func alike(a, b any) bool {
	bare := func(v any) any {
		m, ok := v.(map[string]any)
		if !ok {
			return v
		}
		m = maps.Clone(m)
		delete(m, kindsKey)
		return m
	}
	return reflect.DeepEqual(bare(a), bare(b))
}

// unmarshal keeps numbers as they are written.
func unmarshal(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

// visit shows all objects of a tree.
func visit(v any, see func(map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		see(v)
		for _, inner := range v {
			visit(inner, see)
		}
	case []any:
		for _, inner := range v {
			visit(inner, see)
		}
	}
}

// referred is what an object refers to below a prefix.
func referred(m map[string]any, prefix string) (string, bool) {
	ref, ok := m["$ref"].(string)
	if !ok {
		return "", false
	}
	return strings.CutPrefix(ref, prefix)
}

// inline puts parameters that paths share into their places.
func inline(v any, parameters map[string]any) any {
	switch v := v.(type) {
	case map[string]any:
		if name, ok := referred(v, parameterPrefix); ok && parameters[name] != nil {
			return parameters[name]
		}
		for key, inner := range v {
			v[key] = inline(inner, parameters)
		}
	case []any:
		for i, inner := range v {
			v[i] = inline(inner, parameters)
		}
	}
	return v
}

// reached are the names of the schemas that paths refer to, and that those refer to, in order.
func reached(paths, definitions map[string]any) []string {
	found := map[string]bool{}
	var follow func(any)
	follow = func(v any) {
		visit(v, func(m map[string]any) {
			name, ok := referred(m, definitionPrefix)
			if !ok || found[name] || definitions[name] == nil {
				return
			}
			found[name] = true
			follow(definitions[name])
		})
	}
	for _, item := range paths {
		follow(item)
	}
	return slices.Sorted(maps.Keys(found))
}

// rename lets references lead to schemas that have got another name. Each tree is renamed once.
func rename(v any, names map[string]string) {
	if len(names) == 0 {
		return
	}
	visit(v, func(m map[string]any) {
		if name, ok := referred(m, definitionPrefix); ok && names[name] != "" {
			m["$ref"] = definitionPrefix + names[name]
		}
	})
}
