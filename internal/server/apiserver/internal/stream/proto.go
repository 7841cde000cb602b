package stream

import (
	"encoding/binary"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/wire"
)

func (f *frames) protoEvent(e registry.Event) {
	own, deletion := formKind(e)
	var form wire.Message
	var err error
	switch {
	case own:
		form, err = wire.Proto(f.answer.Within, f.answer.Kind, e.Object)
	case deletion:
		form, err = wire.DeletedProto(f.answer.Within, f.answer.Kind, e.Source)
	default:
		form, err = wire.ProtoAt(f.answer.Within, f.answer.Kind, e.Object, e.Revision)
	}
	if err != nil {
		f.err = err
		return
	}
	f.protoFrame(e.Type, f.answer.Face.GroupVersion().String(), f.answer.Face.Kind, form)
}

// Field numbers of a watch event in protobuf, and of the extension that holds the object.
const (
	numberEventType   = 1
	numberEventObject = 2
	numberRaw         = 1
)

// protoFrame writes the length and the event, which contains the object's envelope.
func (f *frames) protoFrame(t watch.EventType, apiVersion, kind string, message wire.Message) {
	var scratch [160]byte
	head := protobuf.AppendEnvelope(scratch[:0], apiVersion, kind, message.Size())
	document := len(head) + message.Size() + protobuf.EnvelopeEndSize
	extension := protobuf.Size(numberRaw, document)
	size := protobuf.Size(numberEventType, len(t)) + protobuf.Size(numberEventObject, extension)
	b := binary.BigEndian.AppendUint32(f.out.Bytes, uint32(size))
	b = protobuf.AppendBytes(b, numberEventType, t)
	b = protobuf.AppendHead(b, numberEventObject, extension)
	b = protobuf.AppendHead(b, numberRaw, document)
	b = append(b, head...)
	b = message.Append(b)
	f.out.Bytes = protobuf.AppendEnvelopeEnd(b)
}
