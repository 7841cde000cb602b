package answer

import (
	"google.golang.org/protobuf/encoding/protowire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/wire"
)

// Field numbers of a list in protobuf.
const (
	numberListMeta = 1
	numberItems    = 2
)

func (a *Answer) sendProtoList(l *registry.List, it items) error {
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
	out := a.newChunked()
	defer out.end()
	a.Head(resource.ProtobufType)
	b := resource.AppendEnvelope(out.b.Bytes, it.apiVersion, it.listKind, size)
	metaBytes, err := meta.Marshal()
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	b = protowire.AppendTag(b, numberListMeta, protowire.BytesType)
	out.b.Bytes = protowire.AppendBytes(b, metaBytes)
	for i := range forms {
		out.b.Bytes = protowire.AppendTag(out.b.Bytes, numberItems, protowire.BytesType)
		out.b.Bytes = protowire.AppendVarint(out.b.Bytes, uint64(forms[i].Size()))
		out.b.Bytes = forms[i].Append(out.b.Bytes)
		if out.flushIfFull(); out.err != nil {
			return nil
		}
	}
	out.b.Bytes = resource.AppendEnvelopeEnd(out.b.Bytes)
	return nil
}
