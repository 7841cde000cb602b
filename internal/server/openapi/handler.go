package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Handlers returns the handlers by path. A path that ends in a slash includes all paths below it.
func (d *Documents) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		"/openapi/v2":  http.HandlerFunc(d.serveV2),
		"/openapi/v3":  http.HandlerFunc(d.serveIndex),
		"/openapi/v3/": http.HandlerFunc(d.serveV3),
	}
}

func (d *Documents) serveV2(w http.ResponseWriter, r *http.Request) { d.serve(w, r, everything, true) }

func (d *Documents) serveV3(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimPrefix(r.URL.Path, "/openapi/v3/")
	if id == "" {
		d.serveIndex(w, r)
		return
	}
	if d.o.Other != nil {
		if h := d.o.Other(id); h != nil {
			h.ServeHTTP(w, r)
			return
		}
	}
	d.serve(w, r, id, false)
}

type index struct {
	Paths map[string]indexed `json:"paths"`
}

type indexed struct {
	URL string `json:"serverRelativeURL"`
}

func (d *Documents) serveIndex(w http.ResponseWriter, r *http.Request) {
	if !d.settle(w, r) {
		return
	}
	hashes, err := d.list()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	out := index{Paths: map[string]indexed{}}
	for id, hash := range hashes {
		out.Paths[id] = indexed{address(id, hash)}
	}
	if d.o.Others != nil {
		for id, at := range d.o.Others() {
			out.Paths[id] = indexed{at}
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
}

func address(id, hash string) string {
	return (&url.URL{Path: "/openapi/v3/" + id, RawQuery: url.Values{"hash": {hash}}.Encode()}).String()
}

func (d *Documents) serve(w http.ResponseWriter, r *http.Request, id string, v2 bool) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET is possible here", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Vary", "Accept, Accept-Encoding")
	f, contentType, ok := negotiate(r.Header.Values("Accept"), v2)
	if !ok {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	if !d.settle(w, r) {
		return
	}
	var foreign []Foreign
	if v2 && d.o.Foreign != nil {
		foreign = d.o.Foreign(r.Context())
	}
	text, hash, found, err := d.find(id, f, foreign)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	case !found:
		http.NotFound(w, r)
		return
	}
	if asked := r.URL.Query().Get("hash"); asked != "" && !v2 {
		if asked != hash {
			http.Redirect(w, r, address(id, hash), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	}
	w.Header().Set("Etag", strconv.Quote(hash))
	if matchesETag(r.Header.Get("If-None-Match"), hash) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", contentType)
	send(w, r, text)
}

// find returns a document of either version.
func (d *Documents) find(id string, f form, foreign []Foreign) (text []byte, hash string, found bool, err error) {
	if f.v2 {
		text, hash, err = d.assemble(f, foreign)
		return text, hash, true, err
	}
	return d.text(id, f)
}

// matchesETag reports whether a list of ETags contains the hash. Weak tags match, too.
func matchesETag(tags, hash string) bool {
	for tag := range strings.SplitSeq(tags, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == "*" || tag == strconv.Quote(hash) {
			return true
		}
	}
	return false
}

// send sends compressed bytes unchanged to clients that accept them.
func send(w http.ResponseWriter, r *http.Request, text []byte) {
	if acceptsGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		if r.Method != http.MethodHead {
			w.Write(text)
		}
		return
	}
	if r.Method == http.MethodHead {
		return
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		panic(fmt.Sprintf("openapi: a document is not what was compressed: %v", err))
	}
	io.Copy(w, z)
}

func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, q, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err == nil && (name == "gzip" || name == "*") {
			weight, err := strconv.ParseFloat(q["q"], 64)
			return err != nil || weight > 0
		}
	}
	return false
}

// negotiate returns the client's preferred form. Protobuf has two names; the older one contains an at sign, which a
// media type must not.
func negotiate(accept []string, v2 bool) (f form, contentType string, ok bool) {
	protobuf := "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
	if v2 {
		protobuf = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	}
	best := 0.0
	list := strings.Join(accept, ",")
	if strings.TrimSpace(list) == "" {
		list = "*/*"
	}
	for part := range strings.SplitSeq(list, ",") {
		name, parameters, _ := strings.Cut(strings.TrimSpace(part), ";")
		weight := quality(parameters)
		if weight <= best {
			continue
		}
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "application/json", "application/*", "*/*":
			f, contentType = form{v2: v2}, "application/json"
		case protobuf, strings.Replace(protobuf, ".v1.0+", "@v1.0+", 1):
			f, contentType = form{v2: v2, proto: true}, protobuf
		default:
			continue
		}
		best, ok = weight, true
	}
	return f, contentType, ok
}

func quality(parameters string) float64 {
	for p := range strings.SplitSeq(parameters, ";") {
		if text, is := strings.CutPrefix(strings.TrimSpace(p), "q="); is {
			if q, err := strconv.ParseFloat(text, 64); err == nil {
				return q
			}
		}
	}
	return 1
}

// settle has the catalogue follow what was changed before the request. It answers the request if that fails.
func (d *Documents) settle(w http.ResponseWriter, r *http.Request) bool {
	if d.o.Settle == nil {
		return true
	}
	if err := d.o.Settle(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return false
	}
	return true
}
