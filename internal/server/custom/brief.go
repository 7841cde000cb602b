package custom

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// A definition is mostly schema, and is read much more often than its schemas are. So what is read of it at first is the definition without
// them.

// digest identifies the bytes of a stored schema.
type digest = [sha256.Size]byte

// The numbers of the fields on the way to a schema, in the message runtime.Unknown that is stored and in that of a definition.
const (
	rawField      protowire.Number = 2 // of runtime.Unknown
	specField     protowire.Number = 2 // of CustomResourceDefinition
	versionsField protowire.Number = 7 // of CustomResourceDefinitionSpec
	schemaField   protowire.Number = 4 // of CustomResourceDefinitionVersion
)

// storedAsProto begins what is stored as protobuf.
var storedAsProto = []byte("k8s\x00")

// withoutSchemas returns a stored definition without its schemas, and the digests of these by the versions' order; a version without a schema
// has that of nothing. A definition that is stored as JSON is returned as it is, without digests.
func withoutSchemas(value []byte) (brief []byte, digests []digest, err error) {
	message, isProto := bytes.CutPrefix(value, storedAsProto)
	if !isProto {
		return value, nil, nil
	}
	brief, err = cut(message, rawField, func(definition []byte) ([]byte, error) {
		return cut(definition, specField, func(spec []byte) ([]byte, error) {
			return cut(spec, versionsField, func(version []byte) ([]byte, error) {
				var schema []byte
				rest, err := cut(version, schemaField, func(text []byte) ([]byte, error) {
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
	return append(storedAsProto[:len(storedAsProto):len(storedAsProto)], brief...), digests, nil
}

// cut copies a message and exchanges the values of one of its fields, which is itself a message. A value that becomes nil is left out.
func cut(message []byte, field protowire.Number, exchange func([]byte) ([]byte, error)) ([]byte, error) {
	out := make([]byte, 0, 512)
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		length := protowire.ConsumeFieldValue(number, kind, message[n:])
		if length < 0 {
			return nil, protowire.ParseError(length)
		}
		value := message[n : n+length]
		if number != field || kind != protowire.BytesType {
			out = append(append(out, message[:n]...), value...)
			message = message[n+length:]
			continue
		}
		message = message[n+length:]
		text, _ := protowire.ConsumeBytes(value)
		changed, err := exchange(text)
		if err != nil {
			return nil, err
		}
		if changed != nil {
			out = protowire.AppendTag(out, number, kind)
			out = protowire.AppendBytes(out, changed)
		}
	}
	return out, nil
}
