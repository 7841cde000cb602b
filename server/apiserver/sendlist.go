package apiserver

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/watchcache"
	"github.com/millrace/millrace/server/wire"
)

// sendList answers with a page of objects.
func (c *call) sendList(l *registry.List) error {
	switch {
	case c.format.shape == shapeTable:
		return c.sendTable(l)
	case c.format.shape != shapeObject && (c.format.media == mediaYAML || c.format.pretty):
		return c.sendPartialList(l)
	case c.format.shape != shapeObject:
		return c.sendItems(l, c.partialItems())
	case !c.native() || c.format.media == mediaYAML || c.format.pretty:
		return c.sendConverted(l)
	case c.format.gzip && len(l.Objects) >= gzipFrom && !(c.format.media == mediaProto && c.isProto()):
		return c.sendGzipList(l)
	}
	return c.sendItems(l, c.ownItems())
}

// items tells how the objects of a list are shown.
type items struct {
	listKind, apiVersion string
	head                 []byte // begins an item in JSON
	none                 string // an empty list's items in JSON
	json                 func(*watchcache.Object) ([]byte, error)
	proto                func(*watchcache.Object) (wire.Message, error)
}

func (c *call) ownItems() items {
	it := items{listKind: c.face.ListKind, apiVersion: c.face.GroupVersion().String(), head: c.itemHead(), none: "[]",
		json: func(o *watchcache.Object) ([]byte, error) { return wire.JSON(c.within, c.kind, o) }}
	if c.isProto() {
		it.proto = func(o *watchcache.Object) (wire.Message, error) { return wire.Proto(c.within, c.kind, o) }
	}
	return it
}

// partialItems shows the objects' metadata alone.
func (c *call) partialItems() items {
	return items{listKind: partialListGVK.Kind, apiVersion: partialGVK.GroupVersion().String(),
		head:  wire.AppendTypeMeta(nil, partialGVK.Kind, partialGVK.GroupVersion().String()),
		none:  "null", // as kube-apiserver says it
		json:  wire.MetadataJSON,
		proto: func(o *watchcache.Object) (wire.Message, error) { return wire.MetadataProto(o, o.Revision) },
	}
}

func (c *call) sendItems(l *registry.List, it items) error {
	if c.format.media == mediaProto && it.proto != nil {
		return c.sendProtoList(l, it)
	}
	return c.sendJSONList(l, it)
}

func listMeta(l *registry.List) metav1.ListMeta {
	m := metav1.ListMeta{ResourceVersion: l.Revision.String(), Continue: l.Continue}
	if l.Continue != "" && l.Remaining >= 0 {
		m.RemainingItemCount = &l.Remaining
	}
	return m
}

// listHead is a JSON list up to its items.
func listHead(b []byte, l *registry.List, kind, apiVersion string) []byte {
	b = wire.AppendTypeMeta(b, kind, apiVersion)
	b = append(b, `"metadata":{"resourceVersion":"`...)
	b = strconv.AppendInt(b, int64(l.Revision), 10)
	b = append(b, '"')
	if l.Continue != "" {
		b = append(b, `,"continue":"`...)
		b = append(b, l.Continue...)
		b = append(b, '"')
		if l.Remaining >= 0 {
			b = append(b, `,"remainingItemCount":`...)
			b = strconv.AppendInt(b, l.Remaining, 10)
		}
	}
	return append(b, `},"items":`...)
}

// itemHead begins an item: custom kinds say in every item what they are.
func (c *call) itemHead() []byte {
	if !c.kind.Custom {
		return []byte("{")
	}
	return wire.AppendTypeMeta(nil, c.face.Kind, c.face.GroupVersion().String())
}

// chunk is how much of a long answer is gathered before it is handed to the connection: enough that the connection's own
// work for each write does not count, little enough that many such answers at a time do not either.
const chunk = 256 << 10

// chunked gathers an answer and sends it in pieces.
type chunked struct {
	w       *response
	b       *buffer
	within  time.Duration
	started bool
	err     error
}

func (c *call) newChunked() *chunked {
	return &chunked{w: c.w, b: getBuffer(), within: c.s.o.RequestTimeout}
}

// room sends what has been gathered when it is enough.
func (ch *chunked) room() {
	if len(ch.b.bytes) < chunk {
		return
	}
	ch.send()
}

// small is an answer that a connection takes without its client's consent.
const small = 16 << 10

func (ch *chunked) send() {
	if !ch.started && len(ch.b.bytes) > small {
		// A caller that does not read on would keep one of the places for requests.
		ch.started = true
		_ = http.NewResponseController(ch.w).SetWriteDeadline(time.Now().Add(ch.within))
	}
	if ch.err == nil {
		_, ch.err = ch.w.Write(ch.b.bytes)
	}
	ch.b.bytes = ch.b.bytes[:0]
}

// end sends the rest. What could not be sent is nobody's concern: the caller has gone.
func (ch *chunked) end() {
	ch.send()
	ch.b.free()
}

func (c *call) head(contentType string) {
	h := c.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-cache, private")
}

func (c *call) sendJSONList(l *registry.List, it items) error {
	out := c.newChunked()
	defer out.end()
	out.b.bytes = listHead(out.b.bytes, l, it.listKind, it.apiVersion)
	for i, o := range l.Objects {
		form, err := it.json(o)
		if err != nil {
			return c.broken(out, err)
		}
		separator := byte(',')
		if i == 0 {
			c.head(resource.JSONType)
			separator = '['
		}
		out.b.bytes = append(out.b.bytes, separator)
		out.b.bytes = append(out.b.bytes, it.head...)
		out.b.bytes = append(out.b.bytes, form...)
		if out.room(); out.err != nil {
			return nil
		}
	}
	c.head(resource.JSONType)
	end := "]}\n"
	if len(l.Objects) == 0 {
		end = it.none + "}\n"
	}
	out.b.bytes = append(out.b.bytes, end...)
	return nil
}

// broken handles an object that cannot be encoded. If nothing was sent yet, the error is the answer.
func (c *call) broken(out *chunked, err error) error {
	out.b.bytes = out.b.bytes[:0]
	if c.w.code == 0 {
		return apierrors.NewInternalError(err)
	}
	c.s.log.Error("an object could not be encoded in the middle of a list", "kind", c.kind.GroupResource(), "error", err)
	panic(http.ErrAbortHandler)
}

// gzipFrom is from how many objects on a list is compressed.
const gzipFrom = 20

func (c *call) sendGzipList(l *registry.List) error {
	out := c.newChunked()
	defer out.end()
	var g wire.Gzip
	out.b.bytes = g.AppendHead(out.b.bytes)
	out.b.bytes = g.AppendText(out.b.bytes, listHead(nil, l, c.face.ListKind, c.face.GroupVersion().String()))
	chain := wire.ListChain{Kind: c.kind, Between: append([]byte(","), c.itemHead()...)}
	for i, o := range l.Objects {
		block, chained, err := chain.Next(c.within, o)
		if err != nil {
			return c.broken(out, err)
		}
		switch {
		case i == 0:
			c.head(resource.JSONType)
			c.w.Header().Set("Content-Encoding", "gzip")
			c.w.Header().Set("Vary", "Accept-Encoding")
			out.b.bytes = g.AppendText(out.b.bytes, append([]byte("["), chain.Between[1:]...))
		case !chained:
			out.b.bytes = g.AppendText(out.b.bytes, chain.Between)
		}
		out.b.bytes = g.AppendBlock(out.b.bytes, block)
		if out.room(); out.err != nil {
			return nil
		}
	}
	out.b.bytes = g.AppendText(out.b.bytes, []byte("]}\n"))
	out.b.bytes = g.AppendEnd(out.b.bytes)
	return nil
}

// Numbers of a list's fields in protobuf.
const (
	numberListMeta = 1
	numberItems    = 2
)

func (c *call) sendProtoList(l *registry.List, it items) error {
	forms := make([]wire.Message, len(l.Objects))
	meta := listMeta(l)
	size := protowire.SizeTag(numberListMeta) + protowire.SizeBytes(meta.Size())
	for i, o := range l.Objects {
		form, err := it.proto(o)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		forms[i] = form
		size += protowire.SizeTag(numberItems) + protowire.SizeBytes(form.Size())
	}
	out := c.newChunked()
	defer out.end()
	c.head(resource.ProtobufType)
	b := resource.AppendEnvelope(out.b.bytes, it.apiVersion, it.listKind, size)
	metaBytes, err := meta.Marshal()
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	b = protowire.AppendTag(b, numberListMeta, protowire.BytesType)
	out.b.bytes = protowire.AppendBytes(b, metaBytes)
	for i := range forms {
		out.b.bytes = protowire.AppendTag(out.b.bytes, numberItems, protowire.BytesType)
		out.b.bytes = protowire.AppendVarint(out.b.bytes, uint64(forms[i].Size()))
		out.b.bytes = forms[i].Append(out.b.bytes)
		if out.room(); out.err != nil {
			return nil
		}
	}
	out.b.bytes = resource.AppendEnvelopeEnd(out.b.bytes)
	return nil
}

// sendPartialList sends the objects' metadata alone, for the formats that are not put together from forms.
func (c *call) sendPartialList(l *registry.List) error {
	list := &metav1.PartialObjectMetadataList{ListMeta: listMeta(l)} // no items are null, as kube-apiserver says it
	list.Items = slices.Grow(list.Items, len(l.Objects))
	for _, o := range l.Objects {
		p, err := wire.Metadata(o, o.Revision)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		p.SetGroupVersionKind(partialGVK)
		list.Items = append(list.Items, *p)
	}
	return c.send(http.StatusOK, list, partialListGVK)
}

// converted is a list of whatever the caller's version is, for the formats that are not put together from forms.
type converted struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []runtime.Object `json:"items"`
}

func (c *call) sendConverted(l *registry.List) error {
	list := converted{ListMeta: listMeta(l), Items: make([]runtime.Object, 0, len(l.Objects))}
	list.Kind, list.APIVersion = c.face.ListKind, c.face.GroupVersion().String()
	for _, o := range l.Objects {
		obj, err := c.decode(o)
		if err != nil {
			return err
		}
		item := c.faceOf(obj)
		if c.isProto() {
			item.GetObjectKind().SetGroupVersionKind(noGVK)
		}
		list.Items = append(list.Items, item)
	}
	if c.format.media == mediaProto {
		return c.sendConvertedProto(l, list)
	}
	b, err := json.Marshal(list)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	b, contentType, err := c.format.finish(b)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	writeBytes(c.w, contentType, http.StatusOK, b)
	return nil
}

func (c *call) sendConvertedProto(l *registry.List, list converted) error {
	meta := listMeta(l)
	metaBytes, err := meta.Marshal()
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	b := protowire.AppendTag(nil, numberListMeta, protowire.BytesType)
	b = protowire.AppendBytes(b, metaBytes)
	for _, item := range list.Items {
		m, ok := item.(resource.ProtoMessage)
		if !ok {
			return unacceptable("only the following media types are accepted: " + mediaTypes)
		}
		form := make([]byte, m.Size())
		if _, err := m.MarshalToSizedBuffer(form); err != nil {
			return apierrors.NewInternalError(err)
		}
		b = protowire.AppendTag(b, numberItems, protowire.BytesType)
		b = protowire.AppendBytes(b, form)
	}
	out := resource.AppendEnvelope(nil, list.APIVersion, list.Kind, len(b))
	out = resource.AppendEnvelopeEnd(append(out, b...))
	writeBytes(c.w, resource.ProtobufType, http.StatusOK, out)
	return nil
}
