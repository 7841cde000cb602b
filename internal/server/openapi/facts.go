package openapi

import (
	_ "embed"
	"encoding/json"
	"reflect"
	"strings"
)

//go:generate go run ./internal/factsgen

// factsText holds facts from the source code of the types that reflection cannot see.
//
//go:embed facts.txt
var factsText string

// facts are parsed when a document is made, and dropped afterwards.
type facts struct {
	types map[string]*typeFact
	enums map[string][]string
}

type typeFact struct {
	atomic bool
	fields map[string]fieldFact
}

type fieldFact struct {
	list, fallback string
	keys           []string
	atomicMap      bool
	// optional and required override what the tag says.
	optional, required bool
}

func readFacts() *facts {
	f := &facts{types: map[string]*typeFact{}, enums: map[string][]string{}}
	var current *typeFact
	for line := range strings.Lines(factsText) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "\t"):
			name, rest, _ := strings.Cut(line[1:], " ")
			current.fields[name] = parseField(rest)
		case strings.HasPrefix(line, "type "):
			name, atomic := strings.CutSuffix(line[len("type "):], " atomic")
			current = &typeFact{atomic: atomic, fields: map[string]fieldFact{}}
			f.types[name] = current
		case strings.HasPrefix(line, "enum "):
			name, list, _ := strings.Cut(line[len("enum "):], " ")
			var values []string
			// The list consists of quoted words in brackets; with commas it would be JSON.
			if json.Unmarshal([]byte(strings.ReplaceAll(list, `" "`, `","`)), &values) == nil {
				f.enums[name] = values
			}
		}
	}
	return f
}

func parseField(text string) (f fieldFact) {
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "list":
			f.list = value
		case "keys":
			f.keys = strings.Split(value, ",")
		case "atomic":
			f.atomicMap = true
		case "default":
			f.fallback = value
		case "optional":
			f.optional = true
		case "required":
			f.required = true
		}
	}
	return f
}

func key(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

func (f *facts) of(t reflect.Type) *typeFact { return f.types[key(t)] }

func (f *facts) enum(t reflect.Type) []string { return f.enums[key(t)] }

func (t *typeFact) field(name string) fieldFact {
	if t == nil {
		return fieldFact{}
	}
	return t.fields[name]
}
