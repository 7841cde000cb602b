package answer

import (
	"encoding/json"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/internal/server/resource"
)

// sendProtoDocument sends a discovery document in protobuf.
func sendProtoDocument(w http.ResponseWriter, document protobuf.Message) error {
	gvk := document.(runtime.Object).GetObjectKind().GroupVersionKind()
	b, err := protobuf.Marshal(gvk.GroupVersion().String(), gvk.Kind, document)
	if err != nil {
		return err
	}
	WriteBytes(w, resource.ProtobufType, http.StatusOK, b)
	return nil
}

// SendDocument sends a document that is not an object of a kind.
func SendDocument(w http.ResponseWriter, r *http.Request, document any, plain bool) error {
	f, err := negotiate.Choose(r, negotiate.Offer{Document: true, Plain: plain})
	if err != nil {
		return err
	}
	if m, ok := document.(protobuf.Message); ok && f.Media == negotiate.Protobuf {
		return sendProtoDocument(w, m)
	}
	b, err := json.Marshal(document)
	if err != nil {
		return err
	}
	b, contentType, err := f.Finish(b)
	if err != nil {
		return err
	}
	WriteBytes(w, contentType, http.StatusOK, b)
	return nil
}
