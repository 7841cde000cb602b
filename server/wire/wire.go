// Package wire makes the bytes that clients receive.
//
// One version of one object is decoded at most once, encoded at most once for each format and compressed at most once,
// however many lists and watches it goes out on: the cache's objects keep the forms that are made here. A list is a
// concatenation of such forms, and so is a watch.
//
// The JSON form of an object is its text after the opening brace, without kind and apiVersion: `"metadata":{…},…}`. Lists
// show built-in kinds that way; where kind and version belong, they are written in front. The protobuf form is the bare
// message with its resource version in place, which is put together as it is written. Neither needs the object: both are made from the stored bytes, and only what
// these hold beyond the kinds' Go types is decoded after all.
package wire

import (
	"context"

	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/store"
	"github.com/millrace/millrace/server/watchcache"
)

// Slots of the cache's objects in which forms are kept.
const (
	slotJSON = iota
	slotProto
	slotGzip
	slotMetadata
	slotChainedItem
)

// Slots of the cache's events. slotDeleted keeps, with a deletion's event, the last state under the event's resource version.
const (
	slotDeletedJSON = iota
	slotDeletedProto
	slotDeletedGzip
	slotDeletedMetadata
	slotChained
)

// JSON is the object's JSON form.
func JSON(ctx context.Context, k *resource.Kind, o *watchcache.Object) ([]byte, error) {
	return o.Form(k.Edition, slotJSON, func() ([]byte, error) { return makeJSON(ctx, k, o.Value(), o.Revision) })
}

// Proto is the object's protobuf form.
func Proto(ctx context.Context, k *resource.Kind, o *watchcache.Object) (Message, error) {
	return protoAt(ctx, k, o, o.Revision, o, slotProto)
}

// keeper is an object or an event, which keeps forms.
type keeper interface {
	Form(edition uint32, slot int, build func() ([]byte, error)) ([]byte, error)
}

// protoAt makes a form of the bytes that are there anyway. Those of an object at rest would have to be unpacked each time, and
// those of another version converted, so these forms are kept.
func protoAt(ctx context.Context, k *resource.Kind, o *watchcache.Object, rev store.Revision, keep keeper, slot int) (Message, error) {
	if !o.AtRest() {
		if m, own, err := messageOf(k, o.Value(), rev); own {
			return m, err
		}
	}
	form, err := keep.Form(k.Edition, slot, func() ([]byte, error) {
		m, err := anyMessage(ctx, k, o.Value(), rev)
		return m.Append(make([]byte, 0, m.Size())), err
	})
	return Whole(form), err
}

// DeletedJSON is the JSON form of what an event deleted, under the event's resource version.
func DeletedJSON(ctx context.Context, k *resource.Kind, e *watchcache.Event) ([]byte, error) {
	return e.Form(k.Edition, slotDeletedJSON, func() ([]byte, error) { return makeJSON(ctx, k, e.Object.Value(), e.Revision) })
}

// DeletedProto is the same in protobuf.
func DeletedProto(ctx context.Context, k *resource.Kind, e *watchcache.Event) (Message, error) {
	return protoAt(ctx, k, e.Object, e.Revision, e, slotDeletedProto)
}

// JSONAt makes the JSON form of an object under another resource version; nothing is kept.
func JSONAt(ctx context.Context, k *resource.Kind, o *watchcache.Object, rev store.Revision) ([]byte, error) {
	return makeJSON(ctx, k, o.Value(), rev)
}

// ProtoAt is the same in protobuf.
func ProtoAt(ctx context.Context, k *resource.Kind, o *watchcache.Object, rev store.Revision) (Message, error) {
	return anyMessage(ctx, k, o.Value(), rev)
}

// AppendTypeMeta begins a JSON object with what it is, up to where its form follows.
func AppendTypeMeta(b []byte, kind, apiVersion string) []byte {
	b = append(b, `{"kind":"`...)
	b = append(b, kind...)
	b = append(b, `","apiVersion":"`...)
	b = append(b, apiVersion...)
	return append(b, `",`...)
}
