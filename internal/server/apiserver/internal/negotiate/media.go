package negotiate

import (
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/apiserver/internal/status"
	"github.com/millrace/millrace/internal/server/resource"
)

// Media is the media type of a body.
type Media uint8

const (
	JSON Media = iota
	YAML
	Protobuf
)

const YAMLType = "application/yaml"

// target is what an object is converted to before it is sent.
type target uint8

const (
	Object target = iota
	Table
	Partial     // PartialObjectMetadata
	PartialList // PartialObjectMetadataList
)

// Format is how a response is encoded.
type Format struct {
	Media  Media
	Shape  target
	Pretty bool
	Gzip   bool
}

// Offer says which formats a path offers.
type Offer struct {
	Stream, NoTables bool
	// Watchable: the path can also be watched. Document: there is no Table or PartialObjectMetadata. Plain: only JSON
	// is offered.
	Watchable, Document, Plain bool
}

// Choose returns the client's most preferred format that is offered.
func Choose(r *http.Request, a Offer) (Format, error) {
	f := Format{Gzip: acceptsGzip(r)}
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if accept == "" {
		return withPretty(f, r), nil
	}
	known := false
	for _, w := range ParseAccept(accept) {
		if got, ok := meet(w, a); ok {
			got.Gzip = f.Gzip
			return withPretty(got, r), nil
		}
		known = known || slices.Contains([]string{resource.JSONType, YAMLType, resource.ProtobufType}, w.Kind)
	}
	if known && !a.Plain {
		return f, onlyAccepted(a, accept)
	}
	e := status.Unacceptable("406: Not Acceptable\n\nAvailable representations: " + a.representations())
	e.ErrStatus.Details = &metav1.StatusDetails{}
	return f, e
}

const (
	ObjectTypes = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
	StreamTypes = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
)

func (o Offer) representations() string {
	switch {
	case o.Plain:
		return resource.JSONType
	case o.Watchable:
		return ObjectTypes + ", " + StreamTypes
	}
	return ObjectTypes
}

// onlyAccepted returns the error for a known format that is not offered here, or not in the requested shape.
func onlyAccepted(a Offer, accept string) error {
	types := ObjectTypes
	if a.Stream && !strings.Contains(accept, ";") {
		types = StreamTypes
	}
	return status.Unacceptable("only the following media types are accepted: " + types)
}

func meet(w preference, a Offer) (Format, bool) {
	var f Format
	switch w.Kind {
	case resource.JSONType, "*/*":
	case YAMLType:
		f.Media = YAML
	case resource.ProtobufType:
		f.Media = Protobuf
	default:
		return f, false
	}
	as := w.Params["as"]
	switch {
	case f.Media == YAML && a.Stream, f.Media != JSON && a.Plain:
		return f, false
	case a.Plain, as == "" && w.Params["g"] == "" && w.Params["v"] == "":
		return f, true
	}
	if w.Params["g"] != metav1.GroupName || w.Params["v"] != "v1" && w.Params["v"] != "v1beta1" {
		return f, false
	}
	switch as {
	case "Table":
		f.Shape = Table
	case "PartialObjectMetadata":
		f.Shape = Partial
	case "PartialObjectMetadataList":
		f.Shape = PartialList
	default:
		return f, false
	}
	return f, !a.Document && (f.Shape != Table || f.Media != Protobuf && !a.NoTables)
}

func withPretty(f Format, r *http.Request) Format {
	if f.Media != JSON {
		return f
	}
	if q := r.URL.RawQuery; strings.Contains(q, "pretty") {
		v := r.URL.Query().Get("pretty")
		f.Pretty = v != "" && v != "false" && v != "0"
		return f
	}
	agent := r.UserAgent()
	f.Pretty = strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
	return f
}

func acceptsGzip(r *http.Request) bool {
	for _, v := range r.Header.Values("Accept-Encoding") {
		for part := range strings.SplitSeq(v, ",") {
			name, q, _ := strings.Cut(strings.TrimSpace(part), ";")
			if name == "gzip" && strings.TrimSpace(q) != "q=0" {
				return true
			}
		}
	}
	return false
}
