package stream

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
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
	head := resource.AppendEnvelope(scratch[:0], apiVersion, kind, message.Size())
	document := len(head) + message.Size() + len(resource.AppendEnvelopeEnd(nil))
	extension := protowire.SizeTag(numberRaw) + protowire.SizeBytes(document)
	size := protowire.SizeTag(numberEventType) + protowire.SizeBytes(len(t)) + protowire.SizeTag(numberEventObject) + protowire.SizeBytes(extension)
	b := binary.BigEndian.AppendUint32(f.out.Bytes, uint32(size))
	b = protowire.AppendTag(b, numberEventType, protowire.BytesType)
	b = protowire.AppendString(b, string(t))
	b = protowire.AppendTag(b, numberEventObject, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(extension))
	b = protowire.AppendTag(b, numberRaw, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(document))
	b = append(b, head...)
	b = message.Append(b)
	f.out.Bytes = resource.AppendEnvelopeEnd(b)
}
