package answer

import (
	"encoding/json"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/internal/server/resource"
)

func WriteStatus(w http.ResponseWriter, f negotiate.Format, status *metav1.Status) {
	if f.Media == negotiate.Protobuf {
		if b, err := protobuf.Marshal("v1", "Status", status); err == nil {
			WriteBytes(w, resource.ProtobufType, int(status.Code), b)
			return
		}
	}
	b, err := json.Marshal(status)
	contentType := ""
	if err == nil {
		b, contentType, err = f.Finish(b)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	WriteBytes(w, contentType, int(status.Code), b)
}

func WriteBytes(w http.ResponseWriter, contentType string, code int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-cache, private")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	w.Write(body)
}
