package wire

import (
	"context"
	"errors"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
)

var errMessage = errors.New("stored bytes are not a protobuf message with metadata")

// Field numbers of the spliced fields: metadata in an object, resourceVersion in metadata.
const (
	numberMetadata        = 1
	numberResourceVersion = 6
)

// Message is an object's protobuf message with its resource version inserted between parts of the stored bytes. Nothing
// is decoded, and nothing is copied before it is written: copies for all objects of a list would take more memory than
// the objects.
type Message struct {
	before, meta, rest, after []byte // the parts before and after the version, in the message and in its metadata
	version                   string
	whole                     bool // before is the whole message
}

// Whole returns a Message that needs no resource version inserted.
func Whole(message []byte) Message { return Message{before: message, whole: true} }

// Size returns the length of the message.
func (m *Message) Size() int {
	if m.whole {
		return len(m.before)
	}
	return len(m.before) + protobuf.Size(numberMetadata, m.metaSize()) + len(m.after)
}

func (m *Message) metaSize() int {
	return len(m.meta) + protobuf.Size(numberResourceVersion, len(m.version)) + len(m.rest)
}

// Append appends the message.
func (m *Message) Append(b []byte) []byte {
	b = append(b, m.before...)
	if m.whole {
		return b
	}
	b = protobuf.AppendHead(b, numberMetadata, m.metaSize())
	b = append(b, m.meta...)
	b = protobuf.AppendBytes(b, numberResourceVersion, m.version)
	b = append(b, m.rest...)
	return append(b, m.after...)
}

// messageOf returns the message if the bytes were stored in the kind's own version; otherwise own is false.
func messageOf(k *resource.Kind, stored []byte, rev store.Revision) (m Message, own bool, err error) {
	message, _, own := k.Message(stored)
	if !own {
		return Message{}, false, nil
	}
	m, err = splice(message, version(rev))
	return m, true, err
}

// anyMessage returns the message for stored bytes of any version.
func anyMessage(ctx context.Context, k *resource.Kind, stored []byte, rev store.Revision) (Message, error) {
	if m, own, err := messageOf(k, stored, rev); own {
		return m, err
	}
	o, err := k.Decode(ctx, stored, version(rev))
	if err != nil {
		return Message{}, err
	}
	return encoded(o)
}

// encoded returns the message of a decoded object.
func encoded(o resource.Object) (Message, error) {
	p, ok := o.(protobuf.Message)
	if !ok {
		return Message{}, errMessage
	}
	b := make([]byte, p.Size())
	_, err := p.MarshalToSizedBuffer(b)
	return Whole(b), err
}

// StoredProto returns the protobuf form of an entry. o is the decoded object of the entry.
func StoredProto(k *resource.Kind, e store.Entry, o resource.Object) (Message, error) {
	if m, own, err := messageOf(k, e.Value, e.Revision); own {
		return m, err
	}
	return encoded(o)
}

// splice finds the parts of a message around its resource version.
func splice(message []byte, version string) (Message, error) {
	before, metadata, after, found := protobuf.Split(message, numberMetadata)
	if !found {
		return Message{}, errMessage
	}
	meta, _, rest, _ := protobuf.Split(metadata.Bytes, numberResourceVersion)
	return Message{before: before, meta: meta, version: version, rest: rest, after: after}, nil
}
