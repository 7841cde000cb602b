package apiserver

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/resource"
)

// media is a format of bodies.
type media uint8

const (
	mediaJSON media = iota
	mediaYAML
	mediaProto
)

const yamlType = "application/yaml"

// shape is what an object is turned into before it is sent.
type shape uint8

const (
	shapeObject shape = iota
	shapeTable
	shapePartial     // PartialObjectMetadata
	shapePartialList // PartialObjectMetadataList
)

// format is how an answer is written.
type format struct {
	media  media
	shape  shape
	pretty bool
	gzip   bool
}

// asked is what bears upon which formats there are.
type asked struct{ stream, noTables bool }

// accepted chooses the first of the caller's wishes that can be met.
func accepted(r *http.Request, a asked) (format, error) {
	f := format{gzip: acceptsGzip(r)}
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if accept == "" {
		return withPretty(f, r), nil
	}
	known := false
	for _, w := range wishes(accept) {
		if got, ok := meet(w, a); ok {
			got.gzip = f.gzip
			return withPretty(got, r), nil
		}
		known = known || slices.Contains([]string{resource.JSONType, yamlType, resource.ProtobufType}, w.kind)
	}
	if known {
		return f, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotAcceptable,
			Reason: metav1.StatusReasonNotAcceptable, Message: "only the following media types are accepted: " + mediaTypes}}
	}
	return f, notAcceptable()
}

func notAcceptable() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "406: Not Acceptable\n\nAvailable representations: " + mediaTypes, Details: &metav1.StatusDetails{},
	}}
}

const mediaTypes = "application/json, application/yaml, application/vnd.kubernetes.protobuf"

type wish struct {
	kind    string
	params  map[string]string
	quality float64
}

// mostWishes bounds the work that a header can make.
const mostWishes = 64

// wishes are the parts of an Accept header, most wanted first.
func wishes(accept string) []wish {
	var out []wish
	for part := range strings.SplitSeq(accept, ",") {
		if len(out) == mostWishes {
			break
		}
		kind, params, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil {
			continue
		}
		w := wish{kind, params, 1}
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			w.quality = q
		}
		out = append(out, w)
	}
	slices.SortStableFunc(out, func(a, b wish) int {
		switch {
		case a.quality > b.quality:
			return -1
		case a.quality < b.quality:
			return 1
		}
		return 0
	})
	return out
}

func meet(w wish, a asked) (format, bool) {
	var f format
	switch w.kind {
	case resource.JSONType, "*/*", "application/*":
	case yamlType:
		f.media = mediaYAML
		if a.stream {
			return f, false
		}
	case resource.ProtobufType:
		f.media = mediaProto
	default:
		return f, false
	}
	as := w.params["as"]
	if as == "" {
		return f, true
	}
	if w.params["g"] != metav1.GroupName || w.params["v"] != "v1" && w.params["v"] != "v1beta1" {
		return f, false
	}
	switch as {
	case "Table":
		f.shape = shapeTable
	case "PartialObjectMetadata":
		f.shape = shapePartial
	case "PartialObjectMetadataList":
		f.shape = shapePartialList
	default:
		return f, false
	}
	return f, f.shape != shapeTable || f.media != mediaProto && !a.noTables
}

func withPretty(f format, r *http.Request) format {
	if f.media != mediaJSON {
		return f
	}
	if q := r.URL.RawQuery; strings.Contains(q, "pretty") {
		v := r.URL.Query().Get("pretty")
		f.pretty = v != "" && v != "false" && v != "0"
		return f
	}
	agent := r.UserAgent()
	f.pretty = strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
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
