package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/watchcache"
)

// Events that follow each other on a watch are alike: objects of one kind, often of one template. Deflate may refer to up to 32
// KiB of text that the reader has already, so a frame can be compressed against the one before it: a pod of 6 KB becomes
// a hundred bytes or two, instead of 1.4 KB. Watches that follow the same topic get the same frames in the same order,
// and share the result; a watcher that was sent another frame before gets the one that stands alone.

// Frame is an event of a watch: an object in its own version, and what is said of it.
type Frame struct {
	Type   watch.EventType
	Object *watchcache.Object
}

// AppendEventHead begins an event, up to where its object's JSON form follows. AppendEventEnd ends it.
func AppendEventHead(b []byte, t watch.EventType, gvk schema.GroupVersionKind) []byte {
	b = append(b, `{"type":"`...)
	b = append(b, t...)
	b = append(b, `","object":`...)
	return AppendTypeMeta(b, gvk.Kind, gvk.GroupVersion().String())
}

// EventEnd is what follows the object's form.
const EventEnd = "}\n"

// Layout of a chained form: revision and checksum of the key of the frame before it, first letters of both types, then
// the block.
const chainHead = 14

func appendChainHead(b []byte, before, f Frame) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(before.Object.Revision))
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE([]byte(before.Object.Key)))
	return append(b, before.Type[0], f.Type[0])
}

// GzipChained is an event's frame, compressed against the frame before it. It is not ok if another frame is the one
// before it for those who asked first.
func GzipChained(ctx context.Context, k *resource.Kind, gvk schema.GroupVersionKind, before Frame, e *watchcache.Event, t watch.EventType) (block Block, ok bool, err error) {
	f := Frame{t, e.Object}
	var space [chainHead]byte
	head := appendChainHead(space[:0], before, f)
	form, err := e.Form(k.Edition, slotChained, func() ([]byte, error) {
		dictionary, err := before.text(ctx, k, gvk)
		if err != nil {
			return nil, err
		}
		text, err := f.text(ctx, k, gvk)
		if err != nil {
			return nil, err
		}
		return append(bytes.Clone(head), compress(text, dictionary)...), nil
	})
	if err != nil || !bytes.Equal(form[:chainHead], head) {
		return nil, false, err
	}
	return Block(form[chainHead:]), true, nil
}

func (f Frame) text(ctx context.Context, k *resource.Kind, gvk schema.GroupVersionKind) ([]byte, error) {
	form, err := JSON(ctx, k, f.Object)
	if err != nil {
		return nil, err
	}
	b := AppendEventHead(make([]byte, 0, len(form)+128), f.Type, gvk)
	return append(append(b, form...), EventEnd...), nil
}

// ListChain compresses the items of a list, each against the one before it. As long as neither of two neighbours changes,
// lists share what came of it; the item behind one that has changed is sent as it stands alone.
type ListChain struct {
	Kind *resource.Kind
	// Between is what stands between the form of an item and that of the next.
	Between []byte

	before *watchcache.Object
	text   []byte // the JSON form of before, if it was made here
}

// Next is the next item. If it is chained, its block begins with what stands between; otherwise it is the form alone,
// because it is the first item, or others have made it against another one.
func (c *ListChain) Next(ctx context.Context, o *watchcache.Object) (block Block, chained bool, err error) {
	before, text := c.before, c.text
	c.before, c.text = o, nil
	if before == nil {
		block, err = GzipJSON(ctx, c.Kind, o)
		return block, false, err
	}
	var space [chainHead]byte
	head := appendChainHead(space[:0], Frame{watch.Added, before}, Frame{watch.Added, o})
	form, err := o.Form(c.Kind.Edition, slotChainedItem, func() ([]byte, error) {
		var err error
		if text == nil {
			if text, err = makeJSON(ctx, c.Kind, before.Value(), before.Revision); err != nil {
				return nil, err
			}
		}
		if c.text, err = makeJSON(ctx, c.Kind, o.Value(), o.Revision); err != nil {
			return nil, err
		}
		item := append(bytes.Clone(c.Between), c.text...)
		return append(bytes.Clone(head), compress(item, text)...), nil
	})
	if err == nil && !bytes.Equal(form[:chainHead], head) {
		block, err = GzipJSON(ctx, c.Kind, o)
		return block, false, err
	}
	if err != nil {
		return nil, false, err
	}
	return Block(form[chainHead:]), true, nil
}
