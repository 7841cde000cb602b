package encryption

import (
	"errors"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
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
	add := func(b []byte, n protowire.Number, v []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
	}
	b = add(b, dataField, e.data)
	b = add(b, keyIDField, []byte(e.keyID))
	b = add(b, sourceField, e.source)
	for _, key := range slices.Sorted(maps.Keys(e.annotations)) {
		b = add(b, annotationField, add(add(nil, 1, []byte(key)), 2, e.annotations[key]))
	}
	return protowire.AppendVarint(protowire.AppendTag(b, kindField, protowire.VarintType), e.kind)
}

var errEnvelope = errors.New("the value is not an EncryptedObject of KMS v2")

func decodeEnvelope(b []byte) (*envelope, error) {
	e := &envelope{}
	err := fields(b, func(n protowire.Number, v []byte, number uint64) error {
		switch n {
		case dataField:
			e.data = v
		case keyIDField:
			e.keyID = string(v)
		case sourceField:
			e.source = v
		case kindField:
			e.kind = number
		case annotationField:
			var key string
			var value []byte
			if err := fields(v, func(n protowire.Number, v []byte, _ uint64) error {
				switch n {
				case 1:
					key = string(v)
				case 2:
					value = v
				}
				return nil
			}); err != nil {
				return err
			}
			if e.annotations == nil {
				e.annotations = map[string][]byte{}
			}
			e.annotations[key] = value
		}
		return nil
	})
	if err == nil && (len(e.data) == 0 || len(e.source) == 0 || e.keyID == "") {
		err = errEnvelope
	}
	return e, err
}

// fields calls visit for each field of a message.
func fields(b []byte, visit func(n protowire.Number, v []byte, number uint64) error) error {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return errEnvelope
		}
		b = b[size:]
		var v []byte
		var number uint64
		switch kind {
		case protowire.BytesType:
			v, size = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			number, size = protowire.ConsumeVarint(b)
		default:
			return errEnvelope
		}
		if size < 0 {
			return errEnvelope
		}
		if err := visit(n, v, number); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}
