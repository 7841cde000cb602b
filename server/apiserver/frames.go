package apiserver

import (
	"encoding/binary"
	"encoding/json"
	"strconv"
	"sync/atomic"

	"github.com/gorilla/websocket"
	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/store"
	"github.com/millrace/millrace/server/watchcache"
	"github.com/millrace/millrace/server/wire"
)

// frames writes the events of a watch. Between flushes they gather in a buffer that the stream does not hold on to while
// it sleeps.
type frames struct {
	c    *call
	out  *buffer // nil while there is nothing to send
	gzip *wire.Gzip
	// last is what went out last if what follows may be compressed against it; otherwise it has no object.
	last wire.Frame
	send func([]byte) error
	err  error
	// single sends every frame on its own, as a WebSocket wants it.
	single bool
	// columns says that the columns of the table have been sent; they are not repeated.
	columns bool
}

func (c *call) frames() (*frames, error) {
	f := &frames{c: c, single: websocket.IsWebSocketUpgrade(c.r)}
	f.send = func(b []byte) error {
		if _, err := c.w.Write(b); err != nil {
			return err
		}
		c.w.flush()
		return nil
	}
	if c.format.shape == shapePartialList || c.format.media == mediaProto && !c.isProto() && c.format.shape == shapeObject {
		return nil, unacceptable("only the following media types are accepted: " + streamTypes)
	}
	if c.format.gzip && c.format.plain() && c.native() && !f.single {
		f.gzip = &wire.Gzip{}
		f.buffer()
		f.out.bytes = f.gzip.AppendHead(f.out.bytes)
	}
	return f, nil
}

func (f *frames) contentType() string {
	if f.c.format.media == mediaProto {
		return resource.ProtobufType + ";stream=watch"
	}
	return resource.JSONType
}

func (f *frames) buffer() {
	if f.out == nil {
		f.out = getBuffer()
		sending.Add(1)
	}
}

// flush sends what has gathered.
func (f *frames) flush() {
	if f.out == nil {
		if f.c.w.bytes == 0 && f.err == nil && !f.single {
			f.c.w.flush()
		}
		return
	}
	if f.gzip != nil {
		f.out.bytes = f.gzip.AppendFlush(f.out.bytes)
	}
	if f.err == nil && len(f.out.bytes) > 0 {
		f.err = f.send(f.out.bytes)
	}
	f.out.free()
	f.out = nil
	sending.Add(-1)
}

// sending is how many watches have something to send, each with a buffer that it keeps until its client has taken it.
var sending atomic.Int64

// What a watch that has fallen behind sends at a time is its part of what they may all have gathered, within bounds.
const (
	gathered  = 32 << 20
	leastPart = 4 << 10
	mostPart  = 64 << 10
)

// room sends what has gathered when it is enough.
func (f *frames) room() {
	if f.single || int64(len(f.out.bytes)) >= min(mostPart, max(leastPart, gathered/sending.Load())) {
		f.flush()
	}
}

// end closes the stream in order.
func (f *frames) end() {
	if f.gzip != nil && f.err == nil {
		f.buffer()
		f.out.bytes = f.gzip.AppendEnd(f.out.bytes)
		f.gzip = nil // nothing may follow
	}
	f.flush()
}

func (f *frames) added(o *watchcache.Object) {
	f.event(registry.Event{Type: watch.Added, Object: o, Revision: o.Revision})
}

// event writes one event: from shared forms where the caller's wishes allow it.
func (f *frames) event(e registry.Event) {
	f.buffer()
	before := len(f.out.bytes)
	defer func() {
		if f.out != nil { // nil after a fault
			f.c.meter.Sent(len(f.out.bytes) - before)
			f.room()
		}
	}()
	if f.c.native() && f.c.format.shape == shapeObject {
		switch {
		case f.gzip != nil:
			f.gzipEvent(e)
			return
		case f.c.format.plain():
			f.jsonEvent(e)
			return
		case f.c.format.media == mediaProto:
			f.protoEvent(e)
			return
		}
	}
	if f.c.format.shape == shapePartial {
		f.partialEvent(e)
		return
	}
	o, err := f.c.shaped(e)
	if t, ok := o.(*metav1.Table); ok && f.columns {
		t.ColumnDefinitions = nil
	}
	f.columns = true
	if err != nil {
		f.fault(statusFor(err))
		f.err = err
		return
	}
	f.object(e.Type, o)
}

// fate tells how the form of an event's object is made: most carry the object's own version, and share its form.
func fate(e registry.Event) (own, deletion bool) {
	return e.Revision == e.Object.Revision, e.Source != nil && e.Source.Type == watchcache.Deleted
}

func (f *frames) jsonEvent(e registry.Event) {
	form, err := f.jsonForm(e)
	if err != nil {
		f.err = err
		return
	}
	f.jsonFrame(e.Type, f.c.face.GroupVersionKind, form)
}

func (f *frames) jsonFrame(t watch.EventType, gvk schema.GroupVersionKind, form []byte) {
	f.out.bytes = wire.AppendEventHead(f.out.bytes, t, gvk)
	f.out.bytes = append(f.out.bytes, form...)
	f.out.bytes = append(f.out.bytes, wire.EventEnd...)
}

// partialEvent writes an event with the object's metadata alone.
func (f *frames) partialEvent(e registry.Event) {
	if f.c.format.media == mediaProto {
		form, err := wire.MetadataProto(e.Object, e.Revision)
		if f.err = err; err == nil {
			f.protoFrame(e.Type, partialGVK.GroupVersion().String(), partialGVK.Kind, form)
		}
		return
	}
	own, deletion := fate(e)
	var form []byte
	switch {
	case own:
		form, f.err = wire.MetadataJSON(e.Object)
	case deletion:
		form, f.err = wire.DeletedMetadataJSON(e.Source)
	default:
		form, f.err = wire.MetadataJSONAt(e.Object, e.Revision)
	}
	if f.err == nil {
		f.jsonFrame(e.Type, partialGVK, form)
	}
}

func (f *frames) jsonForm(e registry.Event) ([]byte, error) {
	own, deletion := fate(e)
	switch {
	case own:
		return wire.JSON(f.c.within, f.c.kind, e.Object)
	case deletion:
		return wire.DeletedJSON(f.c.within, f.c.kind, e.Source)
	}
	return wire.JSONAt(f.c.within, f.c.kind, e.Object, e.Revision)
}

func (f *frames) gzipEvent(e registry.Event) {
	own, deletion := fate(e)
	last := f.last
	f.last = wire.Frame{}
	if own {
		f.last = wire.Frame{Type: e.Type, Object: e.Object}
	}
	var block wire.Block
	if own && e.Source != nil && last.Object != nil {
		var ok bool
		if block, ok, f.err = wire.GzipChained(f.c.within, f.c.kind, f.c.face.GroupVersionKind, last, e.Source, e.Type); f.err != nil {
			return
		}
		if ok {
			f.out.bytes = f.gzip.AppendBlock(f.out.bytes, block)
			return
		}
	}
	switch {
	case own:
		block, f.err = wire.GzipJSON(f.c.within, f.c.kind, e.Object)
	case deletion:
		block, f.err = wire.GzipDeletedJSON(f.c.within, f.c.kind, e.Source)
	default:
		var form []byte
		form, f.err = wire.JSONAt(f.c.within, f.c.kind, e.Object, e.Revision)
		block = wire.Compress(form)
	}
	if f.err != nil {
		return
	}
	var head [128]byte
	f.out.bytes = f.gzip.AppendText(f.out.bytes, wire.AppendEventHead(head[:0], e.Type, f.c.face.GroupVersionKind))
	f.out.bytes = f.gzip.AppendBlock(f.out.bytes, block)
	f.out.bytes = f.gzip.AppendText(f.out.bytes, []byte(wire.EventEnd))
}

func (f *frames) protoEvent(e registry.Event) {
	own, deletion := fate(e)
	var form wire.Message
	var err error
	switch {
	case own:
		form, err = wire.Proto(f.c.within, f.c.kind, e.Object)
	case deletion:
		form, err = wire.DeletedProto(f.c.within, f.c.kind, e.Source)
	default:
		form, err = wire.ProtoAt(f.c.within, f.c.kind, e.Object, e.Revision)
	}
	if err != nil {
		f.err = err
		return
	}
	f.protoFrame(e.Type, f.c.face.GroupVersion().String(), f.c.face.Kind, form)
}

// Numbers of a watch event's fields in protobuf, and of the bytes in the extension that holds the object.
const (
	numberEventType   = 1
	numberEventObject = 2
	numberRaw         = 1
)

// protoFrame writes length, event, and in it the object's document.
func (f *frames) protoFrame(t watch.EventType, apiVersion, kind string, message wire.Message) {
	var scratch [160]byte
	head := resource.AppendEnvelope(scratch[:0], apiVersion, kind, message.Size())
	document := len(head) + message.Size() + len(resource.AppendEnvelopeEnd(nil))
	extension := protowire.SizeTag(numberRaw) + protowire.SizeBytes(document)
	size := protowire.SizeTag(numberEventType) + protowire.SizeBytes(len(t)) + protowire.SizeTag(numberEventObject) + protowire.SizeBytes(extension)
	b := binary.BigEndian.AppendUint32(f.out.bytes, uint32(size))
	b = protowire.AppendTag(b, numberEventType, protowire.BytesType)
	b = protowire.AppendString(b, string(t))
	b = protowire.AppendTag(b, numberEventObject, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(extension))
	b = protowire.AppendTag(b, numberRaw, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(document))
	b = append(b, head...)
	b = message.Append(b)
	f.out.bytes = resource.AppendEnvelopeEnd(b)
}

// shaped makes what the caller wants of an event's object, when no form can be shared.
func (c *call) shaped(e registry.Event) (runtime.Object, error) {
	o, err := c.kind.Decode(c.within, e.Object.Value(), e.Revision.String())
	if err != nil {
		return nil, err
	}
	if c.format.shape != shapeTable {
		face := c.faceOf(o)
		face.GetObjectKind().SetGroupVersionKind(c.face.GroupVersionKind)
		return face, nil
	}
	t, err := c.table([]resource.Object{o})
	if err != nil {
		return nil, err
	}
	t.SetGroupVersionKind(tableGVK)
	t.ResourceVersion = o.GetResourceVersion()
	return t, nil
}

// object writes an event with any object.
func (f *frames) object(t watch.EventType, o runtime.Object) {
	f.buffer()
	gvk := o.GetObjectKind().GroupVersionKind()
	if m, ok := o.(resource.ProtoMessage); ok && f.c.format.media == mediaProto {
		message := make([]byte, m.Size())
		if _, f.err = m.MarshalToSizedBuffer(message); f.err == nil {
			f.protoFrame(t, gvk.GroupVersion().String(), gvk.Kind, wire.Whole(message))
		}
		return
	}
	b, err := json.Marshal(o)
	if err != nil {
		f.err = err
		return
	}
	text := append([]byte(`{"type":"`), t...)
	text = append(text, `","object":`...)
	text = append(append(text, b...), "}\n"...)
	if f.gzip != nil {
		f.last = wire.Frame{}
		f.out.bytes = f.gzip.AppendText(f.out.bytes, text)
		return
	}
	f.out.bytes = append(f.out.bytes, text...)
}

// fault writes an error event.
func (f *frames) fault(status *metav1.Status) {
	f.object(watch.Error, status)
	f.flush()
}

// bookmark tells how far the watch has come.
func (f *frames) bookmark(rev store.Revision, initialEnd bool) {
	o := f.c.face.New()
	switch f.c.format.shape {
	case shapePartial:
		o = &metav1.PartialObjectMetadata{}
		o.GetObjectKind().SetGroupVersionKind(partialGVK)
	case shapeTable:
		f.tableBookmark(rev, initialEnd)
		return
	default:
		o.GetObjectKind().SetGroupVersionKind(f.c.face.GroupVersionKind)
	}
	meta := o.(resource.Object)
	meta.SetResourceVersion(rev.String())
	if initialEnd {
		meta.SetAnnotations(map[string]string{initialEventsEnd: strconv.FormatBool(true)})
	}
	f.object(watch.Bookmark, o)
	f.flush()
}

// tableBookmark is a table whose one row carries the bookmark.
func (f *frames) tableBookmark(rev store.Revision, initialEnd bool) {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(partialGVK)
	meta.ResourceVersion = rev.String()
	if initialEnd {
		meta.Annotations = map[string]string{initialEventsEnd: strconv.FormatBool(true)}
	}
	raw, err := json.Marshal(meta)
	if err != nil {
		f.err = err
		return
	}
	t := &metav1.Table{ListMeta: metav1.ListMeta{ResourceVersion: rev.String()}, ColumnDefinitions: []metav1.TableColumnDefinition{},
		Rows: []metav1.TableRow{{Cells: []any{}, Object: runtime.RawExtension{Raw: raw}}}}
	t.SetGroupVersionKind(tableGVK)
	f.object(watch.Bookmark, t)
	f.flush()
}
