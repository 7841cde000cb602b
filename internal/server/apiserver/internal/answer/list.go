package answer

import (
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/deflate"
	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/watchcache"
	"github.com/millrace/millrace/internal/server/wire"
)

// SendList sends a page of objects.
func (a *Answer) SendList(l *registry.List) error {
	if a.Format.Shape == negotiate.Object || a.Format.Shape == negotiate.Table {
		if err := wire.Prepare(a.Within, a.Kind, l.Objects); err != nil {
			return internal(err)
		}
	}
	switch {
	case a.Format.Shape == negotiate.Table:
		return a.sendTable(l)
	case a.Format.Shape != negotiate.Object && (a.Format.Media == negotiate.YAML || a.Format.Pretty):
		return a.sendPartialList(l)
	case a.Format.Shape != negotiate.Object:
		return a.sendItems(l, a.partialItems())
	case !a.Native() || a.Format.Media == negotiate.YAML || a.Format.Pretty:
		return a.sendConverted(l)
	case a.Format.Gzip && len(l.Objects) >= gzipFrom && !(a.Format.Media == negotiate.Protobuf && a.StoredProto()):
		return a.sendGzipList(l)
	}
	return a.sendItems(l, a.ownItems())
}

// items says how the objects of a list are shown.
type items struct {
	listKind, apiVersion string
	head                 []byte // the beginning of an item in JSON
	none                 string // the items of an empty list in JSON
	tree                 bool
	json                 func(*watchcache.Object) ([]byte, error)
	proto                func(*watchcache.Object) (wire.Message, error)
}

func (a *Answer) ownItems() items {
	it := items{listKind: a.Face.ListKind, apiVersion: a.Face.GroupVersion().String(), head: a.itemHead(), none: "[]", tree: a.Kind.Custom,
		json: func(o *watchcache.Object) ([]byte, error) { return wire.JSON(a.Within, a.Kind, o) }}
	if a.StoredProto() {
		it.proto = func(o *watchcache.Object) (wire.Message, error) { return wire.Proto(a.Within, a.Kind, o) }
	}
	return it
}

// partialItems shows only the objects' metadata.
func (a *Answer) partialItems() items {
	return items{listKind: partialListGVK.Kind, apiVersion: PartialGVK.GroupVersion().String(),
		head:  wire.AppendTypeMeta(nil, PartialGVK.Kind, PartialGVK.GroupVersion().String()),
		none:  "null", // as in kube-apiserver
		json:  wire.MetadataJSON,
		proto: func(o *watchcache.Object) (wire.Message, error) { return wire.MetadataProto(o, o.Revision) },
	}
}

func (a *Answer) sendItems(l *registry.List, it items) error {
	if a.Format.Media == negotiate.Protobuf && it.proto != nil {
		return a.sendProtoList(l, it)
	}
	return a.sendJSONList(l, it)
}

func listMeta(l *registry.List) metav1.ListMeta {
	m := metav1.ListMeta{ResourceVersion: l.Revision.String(), Continue: l.Continue}
	if l.Continue != "" && l.Remaining >= 0 {
		m.RemainingItemCount = &l.Remaining
	}
	return m
}

// listHead appends a JSON list up to its items. Lists of trees contain an empty continue token.
func listHead(b []byte, l *registry.List, kind, apiVersion string, tree bool) []byte {
	b = wire.AppendTypeMeta(b, kind, apiVersion)
	if tree && l.Continue == "" {
		b = append(b, `"metadata":{"continue":"","resourceVersion":"`...)
	} else {
		b = append(b, `"metadata":{"resourceVersion":"`...)
	}
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

// itemHead returns the beginning of an item: items of custom kinds repeat kind and apiVersion.
func (a *Answer) itemHead() []byte {
	if !a.Kind.Custom {
		return []byte("{")
	}
	return wire.AppendTypeMeta(nil, a.Face.Kind, a.Face.GroupVersion().String())
}

func (a *Answer) Head(contentType string) {
	h := a.Writer.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-cache, private")
}

func (a *Answer) sendJSONList(l *registry.List, it items) error {
	out := a.newChunked()
	defer out.end()
	out.b.Bytes = listHead(out.b.Bytes, l, it.listKind, it.apiVersion, it.tree)
	for i, o := range l.Objects {
		form, err := it.json(o)
		if err != nil {
			return a.broken(out, err)
		}
		separator := byte(',')
		if i == 0 {
			a.Head(resource.JSONType)
			separator = '['
		}
		out.b.Bytes = append(out.b.Bytes, separator)
		out.b.Bytes = append(out.b.Bytes, it.head...)
		out.b.Bytes = append(out.b.Bytes, form...)
		if out.flushIfFull(); out.err != nil {
			return nil
		}
	}
	a.Head(resource.JSONType)
	end := "]}\n"
	if len(l.Objects) == 0 {
		end = it.none + "}\n"
	}
	out.b.Bytes = append(out.b.Bytes, end...)
	return nil
}

// broken handles an object that cannot be encoded. If nothing was sent yet, the error is sent.
func (a *Answer) broken(out *chunked, err error) error {
	out.b.Bytes = out.b.Bytes[:0]
	if a.Writer.Code == 0 {
		return internal(err)
	}
	a.Log.Error("an object could not be encoded in the middle of a list", "kind", a.Kind.GroupResource(), "error", err)
	panic(http.ErrAbortHandler)
}

// gzipFrom is the number of objects from which on a list is compressed.
const gzipFrom = 20

func (a *Answer) sendGzipList(l *registry.List) error {
	out := a.newChunked()
	defer out.end()
	var g deflate.Stream
	out.b.Bytes = g.AppendHead(out.b.Bytes)
	out.b.Bytes = g.AppendText(out.b.Bytes, listHead(nil, l, a.Face.ListKind, a.Face.GroupVersion().String(), a.Kind.Custom))
	chain := wire.ListChain{Kind: a.Kind, Between: append([]byte(","), a.itemHead()...)}
	for i, o := range l.Objects {
		block, chained, err := chain.Next(a.Within, o)
		if err != nil {
			return a.broken(out, err)
		}
		switch {
		case i == 0:
			a.Head(resource.JSONType)
			a.Writer.Header().Set("Content-Encoding", "gzip")
			a.Writer.Header().Set("Vary", "Accept-Encoding")
			out.b.Bytes = g.AppendText(out.b.Bytes, append([]byte("["), chain.Between[1:]...))
		case !chained:
			out.b.Bytes = g.AppendText(out.b.Bytes, chain.Between)
		}
		out.b.Bytes = g.AppendBlock(out.b.Bytes, block)
		if out.flushIfFull(); out.err != nil {
			return nil
		}
	}
	out.b.Bytes = g.AppendText(out.b.Bytes, []byte("]}\n"))
	out.b.Bytes = g.AppendEnd(out.b.Bytes)
	return nil
}
