package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/deflate"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// Consecutive events of a watch are alike: objects of one kind, often of one template. Deflate may refer to the last 32
// KiB of text, so a frame can be compressed against the frame before it: a pod of 6 KB becomes 100 to 200 bytes instead
// of 1.4 KB. Watches that follow the same topic get the same frames in the same order, and share the result. A watcher
// that was sent another frame before gets the independent block.

// Frame is an event of a watch: the object and the type of the event.
type Frame struct {
	Type   watch.EventType
	Object *watchcache.Object
}

// AppendEventHead appends the beginning of an event, up to the object's JSON form. EventEnd follows the form.
func AppendEventHead(b []byte, t watch.EventType, gvk schema.GroupVersionKind) []byte {
	b = append(b, `{"type":"`...)
	b = append(b, t...)
	b = append(b, `","object":`...)
	return AppendTypeMeta(b, gvk.Kind, gvk.GroupVersion().String())
}

// EventEnd follows the object's form.
const EventEnd = "}\n"

// Layout of a chained form: revision and checksum of the key of the previous frame, first letters of both event types,
// then the block.
const chainHead = 14

func appendChainHead(b []byte, before, f Frame) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(before.Object.Revision))
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE([]byte(before.Object.Key)))
	return append(b, before.Type[0], f.Type[0])
}

// GzipChained returns an event's frame, compressed against the frame before it. If the form that is kept was made
// against another frame, ok is false.
func GzipChained(ctx context.Context, k *resource.Kind, gvk schema.GroupVersionKind, before Frame, e *watchcache.Event, t watch.EventType) (block deflate.Block, ok bool, err error) {
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
		return append(bytes.Clone(head), deflate.CompressAfter(text, dictionary)...), nil
	})
	if err != nil || !bytes.Equal(form[:chainHead], head) {
		return nil, false, err
	}
	return deflate.Block(form[chainHead:]), true, nil
}

func (f Frame) text(ctx context.Context, k *resource.Kind, gvk schema.GroupVersionKind) ([]byte, error) {
	form, err := JSON(ctx, k, f.Object)
	if err != nil {
		return nil, err
	}
	b := AppendEventHead(make([]byte, 0, len(form)+128), f.Type, gvk)
	return append(append(b, form...), EventEnd...), nil
}

// ListChain compresses the items of a list, each against the one before it. Lists share the result as long as neither
// item changes. The item after a changed one is sent as an independent block.
type ListChain struct {
	Kind *resource.Kind
	// Between is the text between the forms of two items.
	Between []byte

	before *watchcache.Object
	text   []byte // the JSON form of the previous item, if it was made here
}

// Next compresses the next item. If chained is true, its block begins with Between. Otherwise the block is the form
// alone: it is the first item, or the chained form that is kept was made against another item.
func (c *ListChain) Next(ctx context.Context, o *watchcache.Object) (block deflate.Block, chained bool, err error) {
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
		return append(bytes.Clone(head), deflate.CompressAfter(item, text)...), nil
	})
	if err == nil && !bytes.Equal(form[:chainHead], head) {
		block, err = GzipJSON(ctx, c.Kind, o)
		return block, false, err
	}
	if err != nil {
		return nil, false, err
	}
	return deflate.Block(form[chainHead:]), true, nil
}
