package wire

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/protobuf"
)

// ErrMalformed is wrapped by all errors about bytes that are not what they should be.
var ErrMalformed = protobuf.ErrMalformed

// The field numbers below are part of the API and never change.
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

	envelopeRaw = 2

	eventType    = 1
	eventObject  = 2
	extensionRaw = 1
)

// objectMeta returns the bytes of an object's metadata.
func objectMeta(object []byte) (found []byte, err error) {
	s := protobuf.Scan(object)
	for s.Next() {
		if s.Number == fieldObjectMeta {
			found = s.Bytes
		}
	}
	return found, s.Err()
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
	for s := protobuf.Scan(message); s.Next(); {
		switch {
		case int(s.Number) != path[0]:
		case len(path) == 1:
			found = append(found, string(s.Bytes))
		default:
			found = appendStrings(found, s.Bytes, path[1:])
		}
	}
	return found
}

// readMap returns the entries of a map field. The bytes have been read before without an error.
func readMap(message []byte, number protobuf.Number) map[string]string {
	var entries map[string]string
	for s := protobuf.Scan(message); s.Next(); {
		if s.Number != number {
			continue
		}
		key, value, err := protobuf.Entry(s.Bytes)
		if err != nil {
			break
		}
		if entries == nil {
			entries = map[string]string{}
		}
		entries[string(key)] = string(value)
	}
	return entries
}

// splitObject splits an object into the bytes before its metadata, the metadata, and the bytes after.
func splitObject(object []byte) (before, meta, after []byte, err error) {
	before = object
	found := false
	s := protobuf.Scan(object)
	for s.Next() {
		if s.Number != fieldObjectMeta {
			continue
		}
		if found {
			return nil, nil, nil, fmt.Errorf("%w: an object with metadata twice", ErrMalformed)
		}
		found = true
		before, meta, after = object[:len(object)-len(s.Rest())-len(s.Whole)], s.Bytes, s.Rest()
	}
	return before, meta, after, s.Err()
}

// joinObject is the reverse of splitObject, for metadata in pieces. The result's capacity is its exact length.
func joinObject(before []byte, meta [][]byte, after []byte) []byte {
	size := 0
	for _, piece := range meta {
		size += len(piece)
	}
	out := make([]byte, 0, len(before)+protobuf.Size(fieldObjectMeta, size)+len(after))
	out = protobuf.AppendHead(append(out, before...), fieldObjectMeta, size)
	for _, piece := range meta {
		out = append(out, piece...)
	}
	return append(out, after...)
}

// openEvent returns the type of a watch event and the bytes of its object as it was sent.
func openEvent(frame []byte) (kind string, sent []byte, err error) {
	s := protobuf.Scan(frame)
	for s.Next() {
		switch s.Number {
		case eventType:
			kind = string(s.Bytes)
		case eventObject:
			extension, _ := protobuf.Last(s.Bytes, extensionRaw)
			sent = extension.Bytes
		}
	}
	return kind, sent, s.Err()
}

// readListMeta decodes the metadata of a list.
func readListMeta(message []byte) (metav1.ListMeta, error) {
	var list metav1.ListMeta
	s := protobuf.Scan(message)
	for s.Next() {
		switch s.Number {
		case listMetaResourceVersion:
			list.ResourceVersion = string(s.Bytes)
		case listMetaContinue:
			list.Continue = string(s.Bytes)
		case listMetaRemaining:
			remaining := int64(s.Varint)
			list.RemainingItemCount = &remaining
		}
	}
	return list, s.Err()
}
