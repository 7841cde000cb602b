package answer

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/protobuf"
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
	size := protobuf.Size(numberListMeta, meta.Size())
	for i, o := range l.Objects {
		form, err := it.proto(o)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		forms[i] = form
		size += protobuf.Size(numberItems, form.Size())
	}
	out := a.newChunked()
	defer out.end()
	a.Head(resource.ProtobufType)
	b := protobuf.AppendEnvelope(out.b.Bytes, it.apiVersion, it.listKind, size)
	metaBytes, err := meta.Marshal()
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	out.b.Bytes = protobuf.AppendBytes(b, numberListMeta, metaBytes)
	for i := range forms {
		out.b.Bytes = protobuf.AppendHead(out.b.Bytes, numberItems, forms[i].Size())
		out.b.Bytes = forms[i].Append(out.b.Bytes)
		if out.flushIfFull(); out.err != nil {
			return nil
		}
	}
	out.b.Bytes = protobuf.AppendEnvelopeEnd(out.b.Bytes)
	return nil
}
