// Package wire makes the bytes that clients receive.
//
// Each version of an object is decoded at most once, encoded at most once in each format and compressed at most once,
// however many lists and watches send it: the cache's objects keep the forms that are made here. A list is a
// concatenation of such forms, and so is a watch.
//
// The JSON form of an object is its text after the opening brace, without kind and apiVersion: `"metadata":{…},…}`.
// Lists contain built-in kinds in that form; elsewhere kind and apiVersion are written in front of it. The protobuf
// form is the bare message with its resource version, which is assembled while it is written. Both are made from the
// stored bytes; an object is decoded only if its bytes hold something that is not in the kind's Go type.
package wire

import (
	"context"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// Slots of the cache's objects that hold forms.
const (
	slotJSON = iota
	slotProto
	slotGzip
	slotMetadata
	slotChainedItem
)

// Slots of the cache's events. slotDeleted holds the last state of a deleted object with the event's resource version.
const (
	slotDeletedJSON = iota
	slotDeletedProto
	slotDeletedGzip
	slotDeletedMetadata
	slotChained
)

// JSON returns the object's JSON form.
func JSON(ctx context.Context, k *resource.Kind, o *watchcache.Object) ([]byte, error) {
	return o.Form(k.Edition, slotJSON, func() ([]byte, error) { return makeJSON(ctx, k, o.Value(), o.Revision) })
}

// Proto returns the object's protobuf form.
func Proto(ctx context.Context, k *resource.Kind, o *watchcache.Object) (Message, error) {
	return protoAt(ctx, k, o, o.Revision, o, slotProto)
}

// formKeeper is an object or an event, both of which keep forms.
type formKeeper interface {
	Form(edition uint32, slot int, build func() ([]byte, error)) ([]byte, error)
}

// protoAt makes a protobuf form from the stored bytes. It is kept only where making it again is expensive: if the value
// is packed, or if it has to be converted from another version.
func protoAt(ctx context.Context, k *resource.Kind, o *watchcache.Object, rev store.Revision, keep formKeeper, slot int) (Message, error) {
	if !o.Packed() {
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

// DeletedJSON returns the JSON form of a deleted object, with the event's resource version.
func DeletedJSON(ctx context.Context, k *resource.Kind, e *watchcache.Event) ([]byte, error) {
	return e.Form(k.Edition, slotDeletedJSON, func() ([]byte, error) { return makeJSON(ctx, k, e.Object.Value(), e.Revision) })
}

// DeletedProto returns the same in protobuf.
func DeletedProto(ctx context.Context, k *resource.Kind, e *watchcache.Event) (Message, error) {
	return protoAt(ctx, k, e.Object, e.Revision, e, slotDeletedProto)
}

// JSONAt makes the JSON form of an object with another resource version and does not keep it.
func JSONAt(ctx context.Context, k *resource.Kind, o *watchcache.Object, rev store.Revision) ([]byte, error) {
	return makeJSON(ctx, k, o.Value(), rev)
}

// ProtoAt makes the same in protobuf.
func ProtoAt(ctx context.Context, k *resource.Kind, o *watchcache.Object, rev store.Revision) (Message, error) {
	return anyMessage(ctx, k, o.Value(), rev)
}

// AppendTypeMeta begins a JSON object with its kind and apiVersion; the form follows.
func AppendTypeMeta(b []byte, kind, apiVersion string) []byte {
	b = append(b, `{"kind":"`...)
	b = append(b, kind...)
	b = append(b, `","apiVersion":"`...)
	b = append(b, apiVersion...)
	return append(b, `",`...)
}
