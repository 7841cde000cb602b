package wire

import (
	"context"
	"errors"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"google.golang.org/protobuf/encoding/protowire"
)

var errMessage = errors.New("stored bytes are not a protobuf message with metadata")

// Field numbers of the spliced fields: metadata in an object, resourceVersion in metadata.
const (
	numberMetadata        = 1
	numberResourceVersion = 6
)

// Message is an object's protobuf message with its resource version inserted between parts of the stored bytes. Nothing is decoded, and nothing is
// copied before it is written: copies for all objects of a list would take more memory than the objects.
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
	return len(m.before) + protowire.SizeTag(numberMetadata) + protowire.SizeBytes(m.metaSize()) + len(m.after)
}

func (m *Message) metaSize() int {
	return len(m.meta) + protowire.SizeTag(numberResourceVersion) + protowire.SizeBytes(len(m.version)) + len(m.rest)
}

// Append appends the message.
func (m *Message) Append(b []byte) []byte {
	b = append(b, m.before...)
	if m.whole {
		return b
	}
	b = protowire.AppendTag(b, numberMetadata, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(m.metaSize()))
	b = append(b, m.meta...)
	b = protowire.AppendTag(b, numberResourceVersion, protowire.BytesType)
	b = protowire.AppendString(b, m.version)
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
	p, ok := o.(resource.ProtoMessage)
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
	start, end, found := findField(message, numberMetadata)
	if !found {
		return Message{}, errMessage
	}
	meta, n := protowire.ConsumeBytes(message[start+protowire.SizeTag(numberMetadata) : end])
	if n < 0 {
		return Message{}, errMessage
	}
	from, to, found := findField(meta, numberResourceVersion)
	if !found {
		from, to = len(meta), len(meta)
	}
	return Message{before: message[:start], meta: meta[:from], version: version, rest: meta[to:], after: message[end:]}, nil
}

// findField returns where the first length-delimited field of that number begins and ends, including its tag.
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
