package stream

import (
	"encoding/json"
	"sync/atomic"

	"github.com/gorilla/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/deflate"
	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/server/apiserver/internal/answer"
	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/internal/server/apiserver/internal/status"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/watchcache"
	"github.com/millrace/millrace/internal/server/wire"
)

// frames writes the events of a watch. It has a buffer only between an event and the next flush.
type frames struct {
	answer *answer.Answer
	meter  meter
	out    *answer.Buffer // nil while there is nothing to send
	gzip   *deflate.Stream
	// last is the last frame, if the next one may be compressed against it; otherwise it has no object.
	last wire.Frame
	send func([]byte) error
	err  error
	// single sends every frame on its own, as a WebSocket needs it.
	single bool
	// columns says that the column definitions of the table have been sent; they are not repeated.
	columns bool
}

func newFrames(a *answer.Answer, m meter) (*frames, error) {
	f := &frames{answer: a, meter: m, single: websocket.IsWebSocketUpgrade(a.Request)}
	f.send = func(b []byte) error {
		if _, err := a.Writer.Write(b); err != nil {
			return err
		}
		a.Writer.Flush()
		return nil
	}
	if a.Format.Shape == negotiate.PartialList || a.Format.Media == negotiate.Protobuf && !a.StoredProto() && a.Format.Shape == negotiate.Object {
		return nil, status.Unacceptable("only the following media types are accepted: " + negotiate.StreamTypes)
	}
	if a.Format.Gzip && a.Format.Plain() && a.Native() && !f.single {
		f.gzip = &deflate.Stream{}
		f.buffer()
		f.out.Bytes = f.gzip.AppendHead(f.out.Bytes)
	}
	return f, nil
}

func (f *frames) contentType() string {
	if f.answer.Format.Media == negotiate.Protobuf {
		return resource.ProtobufType + ";stream=watch"
	}
	return resource.JSONType
}

func (f *frames) buffer() {
	if f.out == nil {
		f.out = answer.GetBuffer()
		sending.Add(1)
	}
}

// flush sends the buffer.
func (f *frames) flush() {
	if f.out == nil {
		if f.answer.Writer.Bytes == 0 && f.err == nil && !f.single {
			f.answer.Writer.Flush()
		}
		return
	}
	if f.gzip != nil {
		f.out.Bytes = f.gzip.AppendFlush(f.out.Bytes)
	}
	if f.err == nil && len(f.out.Bytes) > 0 {
		f.err = f.send(f.out.Bytes)
	}
	f.out.Free()
	f.out = nil
	sending.Add(-1)
}

// sending is the number of watches with data to send. Each holds a buffer until its client has read it.
var sending atomic.Int64

// A watch that has fallen behind buffers at most its share of the bytes that all watches together may buffer, between a
// minimum and a maximum.
const (
	gathered = 32 << 20
	minPart  = 4 << 10
	maxPart  = 64 << 10
)

// flushIfFull sends the buffer if it holds enough.
func (f *frames) flushIfFull() {
	if f.single || int64(len(f.out.Bytes)) >= min(maxPart, max(minPart, gathered/sending.Load())) {
		f.flush()
	}
}

// end ends the stream regularly.
func (f *frames) end() {
	if f.gzip != nil && f.err == nil {
		f.buffer()
		f.out.Bytes = f.gzip.AppendEnd(f.out.Bytes)
		f.gzip = nil // nothing may follow
	}
	f.flush()
}

func (f *frames) added(o *watchcache.Object) {
	f.event(registry.Event{Type: watch.Added, Object: o, Revision: o.Revision})
}

// event writes one event, from shared forms if the request allows it.
func (f *frames) event(e registry.Event) {
	f.buffer()
	before := len(f.out.Bytes)
	defer func() {
		if f.out != nil { // nil after an error
			f.meter.Sent(len(f.out.Bytes) - before)
			f.flushIfFull()
		}
	}()
	if f.answer.Native() && f.answer.Format.Shape == negotiate.Object {
		switch {
		case f.gzip != nil:
			f.gzipEvent(e)
			return
		case f.answer.Format.Plain():
			f.jsonEvent(e)
			return
		case f.answer.Format.Media == negotiate.Protobuf:
			f.protoEvent(e)
			return
		}
	}
	if f.answer.Format.Shape == negotiate.Partial {
		f.partialEvent(e)
		return
	}
	o, err := f.answer.Shaped(e)
	if t, ok := o.(*metav1.Table); ok && f.columns {
		t.ColumnDefinitions = nil
	}
	f.columns = true
	if err != nil {
		f.fault(status.Of(err))
		f.err = err
		return
	}
	f.object(e.Type, o)
}

// formKind says which form an event needs: own if the event has the object's resource version, so that the object's
// form can be shared; deletion if it is a deletion.
func formKind(e registry.Event) (own, deletion bool) {
	return e.Revision == e.Object.Revision, e.Source != nil && e.Source.Type == watchcache.Deleted
}

func (f *frames) jsonEvent(e registry.Event) {
	form, err := f.jsonForm(e)
	if err != nil {
		f.err = err
		return
	}
	f.jsonFrame(e.Type, f.answer.Face.GroupVersionKind, form)
}

func (f *frames) jsonFrame(t watch.EventType, gvk schema.GroupVersionKind, form []byte) {
	f.out.Bytes = wire.AppendEventHead(f.out.Bytes, t, gvk)
	f.out.Bytes = append(f.out.Bytes, form...)
	f.out.Bytes = append(f.out.Bytes, wire.EventEnd...)
}

// partialEvent writes an event with the object's metadata only.
func (f *frames) partialEvent(e registry.Event) {
	if f.answer.Format.Media == negotiate.Protobuf {
		form, err := wire.MetadataProto(e.Object, e.Revision)
		if f.err = err; err == nil {
			f.protoFrame(e.Type, answer.PartialGVK.GroupVersion().String(), answer.PartialGVK.Kind, form)
		}
		return
	}
	own, deletion := formKind(e)
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
		f.jsonFrame(e.Type, answer.PartialGVK, form)
	}
}

func (f *frames) jsonForm(e registry.Event) ([]byte, error) {
	own, deletion := formKind(e)
	switch {
	case own:
		return wire.JSON(f.answer.Within, f.answer.Kind, e.Object)
	case deletion:
		return wire.DeletedJSON(f.answer.Within, f.answer.Kind, e.Source)
	}
	return wire.JSONAt(f.answer.Within, f.answer.Kind, e.Object, e.Revision)
}

func (f *frames) gzipEvent(e registry.Event) {
	own, deletion := formKind(e)
	last := f.last
	f.last = wire.Frame{}
	if own {
		f.last = wire.Frame{Type: e.Type, Object: e.Object}
	}
	var block deflate.Block
	if own && e.Source != nil && last.Object != nil {
		var ok bool
		if block, ok, f.err = wire.GzipChained(f.answer.Within, f.answer.Kind, f.answer.Face.GroupVersionKind, last, e.Source, e.Type); f.err != nil {
			return
		}
		if ok {
			f.out.Bytes = f.gzip.AppendBlock(f.out.Bytes, block)
			return
		}
	}
	switch {
	case own:
		block, f.err = wire.GzipJSON(f.answer.Within, f.answer.Kind, e.Object)
	case deletion:
		block, f.err = wire.GzipDeletedJSON(f.answer.Within, f.answer.Kind, e.Source)
	default:
		var form []byte
		form, f.err = wire.JSONAt(f.answer.Within, f.answer.Kind, e.Object, e.Revision)
		block = deflate.Compress(form)
	}
	if f.err != nil {
		return
	}
	var head [128]byte
	f.out.Bytes = f.gzip.AppendText(f.out.Bytes, wire.AppendEventHead(head[:0], e.Type, f.answer.Face.GroupVersionKind))
	f.out.Bytes = f.gzip.AppendBlock(f.out.Bytes, block)
	f.out.Bytes = f.gzip.AppendText(f.out.Bytes, []byte(wire.EventEnd))
}

// object writes an event with any object.
func (f *frames) object(t watch.EventType, o runtime.Object) {
	f.buffer()
	gvk := o.GetObjectKind().GroupVersionKind()
	if m, ok := o.(protobuf.Message); ok && f.answer.Format.Media == negotiate.Protobuf {
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
		f.out.Bytes = f.gzip.AppendText(f.out.Bytes, text)
		return
	}
	f.out.Bytes = append(f.out.Bytes, text...)
}

// fault writes an ERROR event.
func (f *frames) fault(status *metav1.Status) {
	f.object(watch.Error, status)
	f.flush()
}
