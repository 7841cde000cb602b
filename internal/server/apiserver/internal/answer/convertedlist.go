package answer

import (
	"encoding/json"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/internal/server/apiserver/internal/status"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/wire"
)

// sendPartialList sends the objects' metadata only, in formats that are not assembled from forms.
func (a *Answer) sendPartialList(l *registry.List) error {
	list := &metav1.PartialObjectMetadataList{ListMeta: listMeta(l)} // an empty list has the items null, as in kube-apiserver
	list.Items = slices.Grow(list.Items, len(l.Objects))
	for _, o := range l.Objects {
		p, err := wire.Metadata(o, o.Revision)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		p.SetGroupVersionKind(PartialGVK)
		list.Items = append(list.Items, *p)
	}
	return a.Send(http.StatusOK, list, partialListGVK)
}

// converted is a list of objects in the request's version, for formats that are not assembled from forms.
type converted struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        any              `json:"metadata"`
	Items           []runtime.Object `json:"items"`
}

// treeListMeta is the metadata of a list of trees, which contains an empty continue token.
type treeListMeta struct {
	Continue string `json:"continue"`
	metav1.ListMeta
}

func (a *Answer) sendConverted(l *registry.List) error {
	list := converted{Metadata: listMeta(l), Items: make([]runtime.Object, 0, len(l.Objects))}
	if a.Kind.Custom {
		list.Metadata = treeListMeta{Continue: l.Continue, ListMeta: listMeta(l)}
	}
	list.Kind, list.APIVersion = a.Face.ListKind, a.Face.GroupVersion().String()
	for _, o := range l.Objects {
		obj, err := a.decode(o)
		if err != nil {
			return err
		}
		item := a.faceOf(obj)
		if a.StoredProto() {
			item.GetObjectKind().SetGroupVersionKind(noGVK)
		}
		list.Items = append(list.Items, item)
	}
	if a.Format.Media == negotiate.Protobuf {
		return a.sendConvertedProto(l, list)
	}
	b, err := json.Marshal(list)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	b, contentType, err := a.Format.Finish(b)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	WriteBytes(a.Writer, contentType, http.StatusOK, b)
	return nil
}

func (a *Answer) sendConvertedProto(l *registry.List, list converted) error {
	meta := listMeta(l)
	metaBytes, err := meta.Marshal()
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	b := protobuf.AppendBytes(nil, numberListMeta, metaBytes)
	for _, item := range list.Items {
		m, ok := item.(protobuf.Message)
		if !ok {
			return status.Unacceptable("only the following media types are accepted: " + negotiate.ObjectTypes)
		}
		form := make([]byte, m.Size())
		if _, err := m.MarshalToSizedBuffer(form); err != nil {
			return apierrors.NewInternalError(err)
		}
		b = protobuf.AppendBytes(b, numberItems, form)
	}
	out := protobuf.AppendEnvelope(nil, list.APIVersion, list.Kind, len(b))
	out = protobuf.AppendEnvelopeEnd(append(out, b...))
	WriteBytes(a.Writer, resource.ProtobufType, http.StatusOK, out)
	return nil
}
