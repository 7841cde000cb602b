package wire

import (
	"errors"

	"github.com/millrace/millrace/resource"
	"github.com/millrace/millrace/store"
	"google.golang.org/protobuf/encoding/protowire"
)

var errMessage = errors.New("stored bytes are not a protobuf message with metadata")

// Numbers of the fields that are spliced: metadata in an object, resourceVersion in metadata.
const (
	numberMetadata        = 1
	numberResourceVersion = 6
)

// makeProto puts the resource version into stored bytes. Nothing is decoded: the metadata is copied around the place.
func makeProto(stored []byte, rev store.Revision) ([]byte, error) {
	message, err := resource.MessageOf(stored)
	if err != nil {
		return nil, err
	}
	return SpliceProto(message, version(rev))
}

// StoredProto is the protobuf form of an entry.
func StoredProto(e store.Entry) ([]byte, error) { return makeProto(e.Value, e.Revision) }

// SpliceProto returns the message with its metadata's resource version replaced.
func SpliceProto(message []byte, version string) ([]byte, error) {
	start, end, found := findField(message, numberMetadata)
	if !found {
		return nil, errMessage
	}
	meta, n := protowire.ConsumeBytes(message[start+protowire.SizeTag(numberMetadata) : end])
	if n < 0 {
		return nil, errMessage
	}
	from, to, found := findField(meta, numberResourceVersion)
	if !found {
		from, to = len(meta), len(meta)
	}
	field := protowire.SizeTag(numberResourceVersion) + protowire.SizeBytes(len(version))
	size := len(meta) - (to - from) + field
	out := make([]byte, 0, len(message)+field+protowire.SizeVarint(uint64(size)))
	out = append(out, message[:start]...)
	out = protowire.AppendTag(out, numberMetadata, protowire.BytesType)
	out = protowire.AppendVarint(out, uint64(size))
	out = append(out, meta[:from]...)
	out = protowire.AppendTag(out, numberResourceVersion, protowire.BytesType)
	out = protowire.AppendString(out, version)
	out = append(out, meta[to:]...)
	return append(out, message[end:]...), nil
}

// findField tells where the first length-delimited field of that number begins and ends, its tag included.
func findField(b []byte, want protowire.Number) (start, end int, found bool) {
	for at := 0; at < len(b); {
		num, typ, n := protowire.ConsumeTag(b[at:])
		if n < 0 {
			return 0, 0, false
		}
		size := protowire.ConsumeFieldValue(num, typ, b[at+n:])
		if size < 0 {
			return 0, 0, false
		}
		if num == want && typ == protowire.BytesType {
			return at, at + n + size, true
		}
		at += n + size
	}
	return 0, 0, false
}
