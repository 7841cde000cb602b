package resource

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	JSONType     = "application/json"
	ProtobufType = "application/vnd.kubernetes.protobuf"
)

// ProtoMagic begins every protobuf document of Kubernetes.
var ProtoMagic = []byte("k8s\x00")

// ProtoMessage is implemented by the generated types of the built-in kinds.
type ProtoMessage interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
	Unmarshal([]byte) error
}

// Envelope is Kubernetes' protobuf envelope: a message with its version and kind.
type Envelope struct {
	APIVersion, Kind string
	Raw              []byte
}

var errEnvelope = fmt.Errorf("provided data does not appear to be a protobuf message, expected prefix %v", ProtoMagic)

// OpenProto decodes an envelope. Raw shares the memory of b.
func OpenProto(b []byte) (Envelope, error) {
	var e Envelope
	if !bytes.HasPrefix(b, ProtoMagic) {
		return e, errEnvelope
	}
	err := eachField(b[len(ProtoMagic):], func(num protowire.Number, v []byte) error {
		switch num {
		case 1:
			return eachField(v, func(num protowire.Number, v []byte) error {
				switch num {
				case 1:
					e.APIVersion = string(v)
				case 2:
					e.Kind = string(v)
				}
				return nil
			})
		case 2:
			e.Raw = v
		}
		return nil
	})
	return e, err
}

// MessageOf returns the message in an envelope, whatever its kind is.
func MessageOf(b []byte) ([]byte, error) {
	if !bytes.HasPrefix(b, ProtoMagic) {
		return nil, errEnvelope
	}
	var message []byte
	err := eachField(b[len(ProtoMagic):], func(num protowire.Number, v []byte) error {
		if num == 2 {
			message = v
		}
		return nil
	})
	return message, err
}

// eachField calls f with the length-delimited fields of a message and skips the others.
func eachField(b []byte, f func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errEnvelope
		}
		b = b[n:]
		if typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return errEnvelope
			}
			b = b[n:]
			continue
		}
		v, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return errEnvelope
		}
		if err := f(num, v); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// MarshalProto encodes a message in an envelope, with one allocation.
func MarshalProto(apiVersion, kind string, m ProtoMessage) ([]byte, error) {
	size := m.Size()
	b := make([]byte, 0, len(ProtoMagic)+len(apiVersion)+len(kind)+size+32)
	b = AppendEnvelope(b, apiVersion, kind, size)
	at := len(b)
	b = b[:at+size]
	n, err := m.MarshalToSizedBuffer(b[at:])
	if err != nil {
		return nil, err
	}
	if n != size {
		return nil, fmt.Errorf("marshal %s: %d bytes written, %d announced", kind, n, size)
	}
	return append(b, envelopeEnd...), nil
}

// envelopeEnd are the empty content encoding and content type, which Kubernetes always writes.
var envelopeEnd = []byte{0x1a, 0, 0x22, 0}

// AppendEnvelope appends the beginning of an envelope, which is followed by size bytes of message and by AppendEnvelopeEnd.
func AppendEnvelope(b []byte, apiVersion, kind string, size int) []byte {
	b = appendTypeMeta(b, apiVersion, kind)
	b = protowire.AppendTag(b, 2, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(size))
}

// appendTypeMeta appends the magic number, version and kind of an envelope.
func appendTypeMeta(b []byte, apiVersion, kind string) []byte {
	b = append(b, ProtoMagic...)
	meta := protowire.SizeTag(1) + protowire.SizeBytes(len(apiVersion)) + protowire.SizeTag(2) + protowire.SizeBytes(len(kind))
	b = protowire.AppendTag(b, 1, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(meta))
	b = protowire.AppendTag(b, 1, protowire.BytesType)
	b = protowire.AppendString(b, apiVersion)
	b = protowire.AppendTag(b, 2, protowire.BytesType)
	return protowire.AppendString(b, kind)
}

// AppendEnvelopeEnd appends the end of an envelope.
func AppendEnvelopeEnd(b []byte) []byte { return append(b, envelopeEnd...) }
