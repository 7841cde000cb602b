package encryption

import (
	"errors"
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/protobuf"
)

// envelope is the message that holds a value of KMS v2: kube-apiserver's EncryptedObject.
type envelope struct {
	data        []byte
	keyID       string
	source      []byte // the encrypted seed, or the encrypted key
	annotations map[string][]byte
	kind        uint64
}

// How the source is used: as a key, or as the seed from which the key of each value is derived.
const (
	direct   = 0
	extended = 1
)

// The field numbers.
const (
	dataField       = 1
	keyIDField      = 2
	sourceField     = 3
	annotationField = 4
	kindField       = 5
)

// encode appends the message to b.
func (e *envelope) encode(b []byte) []byte {
	b = protobuf.AppendBytes(b, dataField, e.data)
	b = protobuf.AppendBytes(b, keyIDField, e.keyID)
	b = protobuf.AppendBytes(b, sourceField, e.source)
	for _, key := range slices.Sorted(maps.Keys(e.annotations)) {
		entry := protobuf.AppendBytes(protobuf.AppendBytes(nil, 1, key), 2, e.annotations[key])
		b = protobuf.AppendBytes(b, annotationField, entry)
	}
	return protobuf.AppendVarint(b, kindField, e.kind)
}

var errEnvelope = errors.New("the value is not an EncryptedObject of KMS v2")

func decodeEnvelope(b []byte) (*envelope, error) {
	e := &envelope{}
	s := protobuf.Scan(b)
	for s.Next() {
		switch s.Number {
		case dataField:
			e.data = s.Bytes
		case keyIDField:
			e.keyID = string(s.Bytes)
		case sourceField:
			e.source = s.Bytes
		case kindField:
			e.kind = s.Varint
		case annotationField:
			key, value, err := protobuf.Entry(s.Bytes)
			if err != nil {
				return e, errEnvelope
			}
			if e.annotations == nil {
				e.annotations = map[string][]byte{}
			}
			e.annotations[string(key)] = value
		}
	}
	if s.Err() != nil || len(e.data) == 0 || len(e.source) == 0 || e.keyID == "" {
		return e, errEnvelope
	}
	return e, nil
}
