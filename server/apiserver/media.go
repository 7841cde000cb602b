package apiserver

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/server/resource"
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
type asked struct {
	stream, noTables bool
	// watchable is what can be watched at the same path, document what has no other shape, plain what there is as JSON alone.
	watchable, document, plain bool
}

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
	if known && !a.plain {
		return f, onlyAccepted(a, accept)
	}
	e := unacceptable("406: Not Acceptable\n\nAvailable representations: " + a.representations())
	e.ErrStatus.Details = &metav1.StatusDetails{}
	return f, e
}

const (
	mediaTypes  = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
	streamTypes = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
)

func (a asked) representations() string {
	switch {
	case a.plain:
		return resource.JSONType
	case a.watchable:
		return mediaTypes + ", " + streamTypes
	}
	return mediaTypes
}

// onlyAccepted refuses a known format that is not to be had here, or not in the shape that is wanted.
func onlyAccepted(a asked, accept string) error {
	types := mediaTypes
	if a.stream && !strings.Contains(accept, ";") {
		types = streamTypes
	}
	return unacceptable("only the following media types are accepted: " + types)
}

// unlike refuses to show a list as an object's metadata, or the other way round.
func (c *call) unlike() error {
	if c.format.shape == shapePartialList {
		return unacceptable(fmt.Sprintf("you requested PartialObjectMetadataList, but the requested object is not a list (*%s.%s)", internalName(c.kind.Group), c.kind.Kind))
	}
	return unacceptable(fmt.Sprintf("you requested PartialObjectMetadata, but the requested object is a list (*%s.%s)", internalName(c.kind.Group), c.kind.ListKind))
}

func unacceptable(message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable, Message: message,
	}}
}

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
		if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
			continue
		}
		if raw, _, _ := strings.Cut(strings.TrimSpace(part), ";"); strings.TrimSpace(raw) != kind {
			continue // kube-apiserver knows them in small letters
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
	case resource.JSONType, "*/*":
	case yamlType:
		f.media = mediaYAML
	case resource.ProtobufType:
		f.media = mediaProto
	default:
		return f, false
	}
	as := w.params["as"]
	switch {
	case f.media == mediaYAML && a.stream, f.media != mediaJSON && a.plain:
		return f, false
	case a.plain, as == "" && w.params["g"] == "" && w.params["v"] == "":
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
	return f, !a.document && (f.shape != shapeTable || f.media != mediaProto && !a.noTables)
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
