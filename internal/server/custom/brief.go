package custom

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/millrace/millrace/internal/protobuf"
)

// A definition is mostly schema, and is read much more often than its schemas are. So what is read of it at first is
// the definition without them.

// digest identifies the bytes of a stored schema.
type digest = [sha256.Size]byte

// The numbers of the fields on the way to a schema, in the message runtime.Unknown that is stored and in that of a
// definition.
const (
	rawField      protobuf.Number = 2 // of runtime.Unknown
	specField     protobuf.Number = 2 // of CustomResourceDefinition
	versionsField protobuf.Number = 7 // of CustomResourceDefinitionSpec
	schemaField   protobuf.Number = 4 // of CustomResourceDefinitionVersion
)

// withoutSchemas returns a stored definition without its schemas, and the digests of these by the versions' order; a
// version without a schema has that of nothing. A definition that is stored as JSON is returned as it is, without
// digests.
func withoutSchemas(value []byte) (brief []byte, digests []digest, err error) {
	if !protobuf.Enveloped(value) {
		return value, nil, nil
	}
	brief, err = cut([]byte(protobuf.Magic), value[len(protobuf.Magic):], rawField, func(definition []byte) ([]byte, error) {
		return cut(nil, definition, specField, func(spec []byte) ([]byte, error) {
			return cut(nil, spec, versionsField, func(version []byte) ([]byte, error) {
				var schema []byte
				rest, err := cut(nil, version, schemaField, func(text []byte) ([]byte, error) {
					schema = text
					return nil, nil
				})
				digests = append(digests, sha256.Sum256(schema))
				return rest, err
			})
		})
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read a stored definition: %w", err)
	}
	return brief, digests, nil
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
