package custom

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/millrace/millrace/internal/jsontext"
	"github.com/millrace/millrace/internal/protobuf"
)

// A definition is mostly schema, and is read much more often than its schemas are. So what is read of it at first is
// the definition without them.

// digest identifies the bytes of a stored schema.
type digest = [sha256.Size]byte

// The numbers of the fields on the way to a schema, in the message runtime.Unknown that is stored and in that of a
// definition. They are the same in v1 and v1beta1, as schemas are; only v1beta1 has one for all versions.
const (
	rawField      protobuf.Number = 2 // of runtime.Unknown
	specField     protobuf.Number = 2 // of CustomResourceDefinition
	commonField   protobuf.Number = 5 // of CustomResourceDefinitionSpec
	versionsField protobuf.Number = 7 // of CustomResourceDefinitionSpec
	schemaField   protobuf.Number = 4 // of CustomResourceDefinitionVersion
)

// withoutSchemas returns a stored definition without its schemas, and the digests of these by the versions' order; a
// version without a schema has that of the schema for all versions, or of nothing.
func withoutSchemas(value []byte) (brief []byte, digests []digest, err error) {
	var common []byte
	var schemas [][]byte
	if !protobuf.Enveloped(value) {
		brief, common, schemas = cutJSON(value)
		return brief, digestsOf(common, schemas), nil
	}
	brief, err = cut([]byte(protobuf.Magic), value[len(protobuf.Magic):], rawField, func(definition []byte) ([]byte, error) {
		return cut(nil, definition, specField, func(spec []byte) ([]byte, error) {
			spec, err := cut(nil, spec, commonField, take(&common))
			if err != nil {
				return nil, err
			}
			return cut(nil, spec, versionsField, func(version []byte) ([]byte, error) {
				schemas = append(schemas, nil)
				return cut(nil, version, schemaField, take(&schemas[len(schemas)-1]))
			})
		})
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read a stored definition: %w", err)
	}
	return brief, digestsOf(common, schemas), nil
}

// digestsOf returns the digests of the schemas of all versions; one that has none has the common schema.
func digestsOf(common []byte, schemas [][]byte) (digests []digest) {
	for _, schema := range schemas {
		if schema == nil {
			schema = common
		}
		digests = append(digests, sha256.Sum256(schema))
	}
	return digests
}

// cutJSON returns a definition that is stored as JSON without its schemas. Text that is not one object stays as it is,
// for the decoder to refuse.
func cutJSON(value []byte) (brief, common []byte, schemas [][]byte) {
	drop := func(into *[]byte) func([]byte) []byte {
		return func(v []byte) []byte { *into = v; return nil }
	}
	version := func(v []byte) []byte {
		schemas = append(schemas, nil)
		return cutMembers(v, map[string]func([]byte) []byte{`"schema"`: drop(&schemas[len(schemas)-1])})
	}
	spec := func(v []byte) []byte {
		return cutMembers(v, map[string]func([]byte) []byte{`"validation"`: drop(&common), `"versions"`: func(list []byte) []byte {
			return cutElements(list, version)
		}})
	}
	return cutMembers(bytes.TrimSpace(value), map[string]func([]byte) []byte{`"spec"`: spec}), common, schemas
}

// cutMembers copies an object with other values of the members that have a function, by their quoted names. A value that
// becomes nil is left out.
func cutMembers(text []byte, exchange map[string]func([]byte) []byte) []byte {
	out := append(make([]byte, 0, 512), '{')
	if !jsontext.AllMembers(text, func(name, value []byte) bool {
		if f := exchange[string(name)]; f != nil {
			if value = f(value); value == nil {
				return true
			}
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), value...)
		return true
	}) {
		return text
	}
	return append(out, '}')
}

// cutElements copies a list with other elements.
func cutElements(text []byte, exchange func([]byte) []byte) []byte {
	out := append(make([]byte, 0, 512), '[')
	if !jsontext.Elements(text, func(value []byte) bool {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, exchange(value)...)
		return true
	}) {
		return text
	}
	return append(out, ']')
}

// take keeps a field's value, and leaves it out.
func take(into *[]byte) func([]byte) ([]byte, error) {
	return func(value []byte) ([]byte, error) {
		*into = value
		return nil, nil
	}
}

// cut appends a copy of a message, with other values of one of its fields, which is itself a message. A value that
// becomes nil is left out.
func cut(out, message []byte, field protobuf.Number, exchange func([]byte) ([]byte, error)) ([]byte, error) {
	out = slices.Grow(out, 512)
	s := protobuf.Scan(message)
	for s.Next() {
		if s.Number != field || s.Type != protowire.BytesType {
			out = append(out, s.Whole...)
			continue
		}
		changed, err := exchange(s.Bytes)
		if err != nil {
			return nil, err
		}
		if changed != nil {
			out = protobuf.AppendBytes(out, field, changed)
		}
	}
	return out, s.Err()
}
