package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrMalformed is wrapped by all errors about bytes that are not what they should be.
var ErrMalformed = errors.New("malformed protobuf")

// magic precedes each object that is sent alone. The field numbers below are part of the API and never change.
const magic = "k8s\x00"

const (
	fieldObjectMeta = 1 // the same number in every kind

	metaName            = 1
	metaNamespace       = 3
	metaUID             = 5
	metaResourceVersion = 6
	metaLabels          = 11
	metaAnnotations     = 12
	metaManagedFields   = 17

	listMetaResourceVersion = 2
	listMetaContinue        = 3
	listMetaRemaining       = 4

	envelopeTypeMeta = 1
	envelopeRaw      = 2
	typeMetaKind     = 2

	eventType    = 1
	eventObject  = 2
	extensionRaw = 1

	mapKey   = 1
	mapValue = 2
)

// wireField is one field of a message. Kubernetes uses two types of values: numbers and bytes.
type wireField struct {
	number int
	value  []byte // for bytes
	varint uint64 // for numbers
	whole  []byte // the field including its tag
}

// uvarint is binary.Uvarint; most numbers are one byte long.
func uvarint(b []byte) (value uint64, size int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return binary.Uvarint(b)
}

// nextField returns the first field of a message and the rest of it.
func nextField(message []byte) (wireField, []byte, error) {
	tag, n := uvarint(message)
	if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29 {
		return wireField{}, nil, ErrMalformed
	}
	f, rest := wireField{number: int(tag >> 3)}, message[n:]
	size := 0
	switch tag & 7 {
	case 0:
		f.varint, size = uvarint(rest)
		if size <= 0 {
			return f, nil, ErrMalformed
		}
	case 1:
		size = 8
	case 5:
		size = 4
	case 2:
		length, n := uvarint(rest)
		if n <= 0 || length > uint64(len(rest)-n) {
			return f, nil, ErrMalformed
		}
		f.value = rest[n : n+int(length)]
		size = n + int(length)
	default:
		return f, nil, ErrMalformed
	}
	if size > len(rest) {
		return f, nil, ErrMalformed
	}
	f.whole = message[:n+size]
	return f, rest[size:], nil
}

// eachField calls visit for each field of a message.
func eachField(message []byte, visit func(wireField) error) error {
	for len(message) > 0 {
		f, rest, err := nextField(message)
		if err != nil {
			return err
		}
		if err := visit(f); err != nil {
			return err
		}
		message = rest
	}
	return nil
}

// objectMeta returns the bytes of an object's metadata.
func objectMeta(object []byte) (found []byte, err error) {
	err = eachField(object, func(f wireField) error {
		if f.number == fieldObjectMeta {
			found = f.value
		}
		return nil
	})
	return found, err
}

// Labels returns the labels of an encoded object. Nothing else is decoded.
func Labels(object []byte) map[string]string {
	meta, err := objectMeta(object)
	if err != nil {
		return nil
	}
	return readMap(meta, metaLabels)
}

// Strings returns the strings at a path of field numbers in an encoded message. The last number is that of a string
// field. If the path leads through lists there may be any number of values.
func Strings(message []byte, path []int) []string { return appendStrings(nil, message, path) }

func appendStrings(found []string, message []byte, path []int) []string {
	for len(message) > 0 {
		f, rest, err := nextField(message)
		if err != nil {
			return found
		}
		message = rest
		switch {
		case f.number != path[0]:
		case len(path) == 1:
			found = append(found, string(f.value))
		default:
			found = appendStrings(found, f.value, path[1:])
		}
	}
	return found
}

// readMap returns the entries of a map field.
func readMap(message []byte, number int) map[string]string {
	var entries map[string]string
	_ = eachField(message, func(f wireField) error { // these bytes have been read before without an error
		if f.number != number {
			return nil
		}
		var key, value []byte
		err := eachField(f.value, func(f wireField) error {
			switch f.number {
			case mapKey:
				key = f.value
			case mapValue:
				value = f.value
			}
			return nil
		})
		if err != nil {
			return err
		}
		if entries == nil {
			entries = map[string]string{}
		}
		entries[string(key)] = string(value)
		return nil
	})
	return entries
}

// splitObject splits an object into the bytes before its metadata, the metadata, and the bytes after.
func splitObject(object []byte) (before, meta, after []byte, err error) {
	found := false
	for rest := object; len(rest) > 0; {
		f, next, err := nextField(rest)
		switch {
		case err != nil:
			return nil, nil, nil, err
		case f.number == fieldObjectMeta && found:
			return nil, nil, nil, fmt.Errorf("%w: an object with metadata twice", ErrMalformed)
		case f.number == fieldObjectMeta:
			found = true
			before, meta, after = object[:len(object)-len(rest)], f.value, next
		}
		rest = next
	}
	if !found {
		before = object
	}
	return before, meta, after, nil
}

// joinObject is the reverse of splitObject, for metadata in pieces. The result's capacity is its exact length.
func joinObject(before []byte, meta [][]byte, after []byte) []byte {
	size := 0
	for _, piece := range meta {
		size += len(piece)
	}
	out := make([]byte, 0, len(before)+1+uvarintLen(uint64(size))+size+len(after))
	out = append(append(out, before...), fieldObjectMeta<<3|2)
	out = binary.AppendUvarint(out, uint64(size))
	for _, piece := range meta {
		out = append(out, piece...)
	}
	return append(out, after...)
}

func uvarintLen(n uint64) int {
	var buffer [binary.MaxVarintLen64]byte
	return binary.PutUvarint(buffer[:], n)
}

// openEnvelope returns the kind and the bytes of an object that was sent alone.
func openEnvelope(sent []byte) (kind string, object []byte, err error) {
	if len(sent) < len(magic) || string(sent[:len(magic)]) != magic {
		return "", nil, fmt.Errorf("%w: no object where one should be", ErrMalformed)
	}
	err = eachField(sent[len(magic):], func(f wireField) error {
		switch f.number {
		case envelopeTypeMeta:
			return eachField(f.value, func(f wireField) error {
				if f.number == typeMetaKind {
					kind = string(f.value)
				}
				return nil
			})
		case envelopeRaw:
			object = f.value
		}
		return nil
	})
	return kind, object, err
}

// openEvent returns the type of a watch event and the bytes of its object as it was sent.
func openEvent(frame []byte) (kind string, sent []byte, err error) {
	err = eachField(frame, func(f wireField) error {
		switch f.number {
		case eventType:
			kind = string(f.value)
		case eventObject:
			return eachField(f.value, func(f wireField) error {
				if f.number == extensionRaw {
					sent = f.value
				}
				return nil
			})
		}
		return nil
	})
	return kind, sent, err
}

// readListMeta decodes the metadata of a list.
func readListMeta(message []byte) (metav1.ListMeta, error) {
	var list metav1.ListMeta
	err := eachField(message, func(f wireField) error {
		switch f.number {
		case listMetaResourceVersion:
			list.ResourceVersion = string(f.value)
		case listMetaContinue:
			list.Continue = string(f.value)
		case listMetaRemaining:
			remaining := int64(f.varint)
			list.RemainingItemCount = &remaining
		}
		return nil
	})
	return list, err
}
