package h2

import (
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
)

// pairs are slices that are reused.
var pairs = sync.Pool{New: func() any { return new([]hpack.HeaderField) }}

// appendHead appends the fields of the head.
func (r *response) appendHead(fields []hpack.HeaderField) []hpack.HeaderField {
	for name, values := range r.header {
		wire := wireName(name)
		switch wire {
		case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
			continue
		case "trailer":
			r.trailers = slices.AppendSeq(r.trailers, announced(values))
		}
		if strings.HasPrefix(name, http.TrailerPrefix) || slices.Contains(r.trailers, name) {
			continue
		}
		fields = appendField(fields, wire, values)
	}
	return fields
}

// announced yields the trailers that the field Trailer announces.
func announced(values []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, v := range values {
			for name := range strings.SplitSeq(v, ",") {
				if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); httpguts.ValidTrailerHeader(name) && !yield(name) {
					return
				}
			}
		}
	}
}

func appendField(fields []hpack.HeaderField, wire string, values []string) []hpack.HeaderField {
	if wire == "" {
		return fields
	}
	for _, v := range values {
		if httpguts.ValidHeaderFieldValue(v) {
			// Values that differ in each answer would only displace other entries of the header table.
			fields = append(fields, hpack.HeaderField{Name: wire, Value: v, Sensitive: wire == "content-length" || wire == "audit-id"})
		}
	}
	return fields
}

// wireNames maps the common keys of an http.Header to their names in HTTP/2.
var wireNames = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for wire, name := range commonNames() {
		m[name] = wire
	}
	return m
})

// wireName returns the name of a field in HTTP/2; empty if the field is not allowed there.
func wireName(name string) string {
	if wire, ok := wireNames()[name]; ok {
		return wire
	}
	if !httpguts.ValidHeaderFieldName(name) {
		return ""
	}
	return strings.ToLower(name)
}

// clock formats the time for HTTP, once per second.
type clock struct{ now atomic.Pointer[second] }

type second struct {
	unix int64
	text string
}

var httpDate clock

func (c *clock) text() string {
	now := time.Now()
	if s := c.now.Load(); s != nil && s.unix == now.Unix() {
		return s.text
	}
	s := &second{now.Unix(), now.UTC().Format(http.TimeFormat)}
	c.now.Store(s)
	return s.text
}
