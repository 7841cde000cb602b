package protobuf

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Magic begins every protobuf document of Kubernetes.
const Magic = "k8s\x00"

// Message is implemented by the generated types of the built-in kinds.
type Message interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
	Unmarshal([]byte) error
}

// Envelope is Kubernetes' protobuf envelope: a message with its version and kind.
type Envelope struct {
	APIVersion, Kind string
	Raw              []byte
}

// The fields of the envelope, and of the message in it that has the version and the kind.
const (
	envelopeTypeMeta Number = 1
	envelopeRaw      Number = 2
	typeMetaVersion  Number = 1
	typeMetaKind     Number = 2
)

var errEnvelope = fmt.Errorf("provided data does not appear to be a protobuf message, expected prefix %v", []byte(Magic))

// Enveloped reports whether bytes begin as an envelope does.
func Enveloped(b []byte) bool { return len(b) >= len(Magic) && string(b[:len(Magic)]) == Magic }

// Open decodes an envelope. Raw shares the memory of b.
func Open(b []byte) (Envelope, error) {
	var e Envelope
	err := open(b, func(s *Scanner) error {
		switch s.Number {
		case envelopeTypeMeta:
			return e.readTypeMeta(s.Bytes)
		case envelopeRaw:
			e.Raw = s.Bytes
		}
		return nil
	})
	return e, err
}

func (e *Envelope) readTypeMeta(message []byte) error {
	s := Scan(message)
	for s.Next() {
		switch {
		case s.Type != protowire.BytesType:
		case s.Number == typeMetaVersion:
			e.APIVersion = string(s.Bytes)
		case s.Number == typeMetaKind:
			e.Kind = string(s.Bytes)
		}
	}
	return s.Err()
}

// Content returns the message in an envelope, whatever its kind is.
func Content(b []byte) (message []byte, err error) {
	err = open(b, func(s *Scanner) error {
		if s.Number == envelopeRaw {
			message = s.Bytes
		}
		return nil
	})
	return message, err
}

// open visits the fields of bytes of an envelope.
func open(b []byte, visit func(*Scanner) error) error {
	if !Enveloped(b) {
		return errEnvelope
	}
	s := Scan(b[len(Magic):])
	for s.Next() {
		if s.Type == protowire.BytesType && visit(&s) != nil {
			return errEnvelope
		}
	}
	if s.Err() != nil {
		return errEnvelope
	}
	return nil
}

// Marshal encodes a message in an envelope, with one allocation.
func Marshal(apiVersion, kind string, m Message) ([]byte, error) {
	size := m.Size()
	b := make([]byte, 0, len(Magic)+len(apiVersion)+len(kind)+size+32)
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
	return AppendEnvelopeEnd(b), nil
}

// AppendEnvelope appends the beginning of an envelope, which is followed by size bytes of message and by
// AppendEnvelopeEnd.
func AppendEnvelope(b []byte, apiVersion, kind string, size int) []byte {
	return AppendHead(AppendEnvelopeStart(b, apiVersion, kind), envelopeRaw, size)
}

// AppendEnvelopeStart appends what is the same in all envelopes of a kind: the magic number, version and kind.
func AppendEnvelopeStart(b []byte, apiVersion, kind string) []byte {
	b = append(b, Magic...)
	b = AppendHead(b, envelopeTypeMeta, Size(typeMetaVersion, len(apiVersion))+Size(typeMetaKind, len(kind)))
	b = AppendBytes(b, typeMetaVersion, apiVersion)
	return AppendBytes(b, typeMetaKind, kind)
}

// envelopeEnd are the empty content encoding and content type, which Kubernetes always writes.
const envelopeEnd = "\x1a\x00\x22\x00"

// EnvelopeEndSize is the size of what AppendEnvelopeEnd appends.
const EnvelopeEndSize = len(envelopeEnd)

// AppendEnvelopeEnd appends the end of an envelope.
func AppendEnvelopeEnd(b []byte) []byte { return append(b, envelopeEnd...) }
