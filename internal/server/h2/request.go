package h2

import (
	"context"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// headers handles a header block: it begins a stream, or carries the trailers of one.
func (c *conn) headers(f *http2.MetaHeadersFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st := c.streams[f.StreamID]; st != nil {
		return c.trailersLocked(st, f)
	}
	switch {
	case f.StreamID%2 == 0:
		return connectionError(http2.ErrCodeProtocol)
	case f.StreamID <= c.last:
		return connectionError(http2.ErrCodeStreamClosed)
	}
	c.last = f.StreamID
	if c.draining {
		return nil // the client has got a GOAWAY frame and sends the request elsewhere
	}
	if f.HasPriority() && f.Priority.StreamDep == f.StreamID {
		return streamError(f.StreamID, http2.ErrCodeProtocol)
	}
	// A handler may run on for a while after its client has cancelled, so both streams and handlers are bounded.
	size, most := memoryOf(f.Fields), c.maxStreams()
	if len(c.streams) >= most || c.running >= 2*most || c.memory > 0 && c.memory+size > c.maxRequestMemory() {
		if !c.nuisance.charge(size / chargedHead) {
			return errFlood
		}
		return streamError(f.StreamID, http2.ErrCodeRefusedStream)
	}
	return c.beginLocked(f, size)
}

// The memory of a request has little to do with its bytes on the wire, which may be references to the header table.
// These are measured and rounded up: a request with its context and answer, a field in an http.Header, a name in the
// map of announced trailers.
const requestMemory, fieldMemory, trailerMemory = 2 << 10, 128, 128

// chargedHead is the size above which a refused head counts as more than one nuisance: it has already been decoded.
const chargedHead = 8 << 10

// memoryOf returns how much memory a header block occupies.
func memoryOf(fields []hpack.HeaderField) int {
	n := requestMemory
	for _, field := range fields {
		n += len(field.Name) + len(field.Value) + fieldMemory
		if field.Name == "trailer" {
			n += (1 + strings.Count(field.Value, ",")) * trailerMemory
		}
	}
	return n
}

// trailersLocked handles the trailers of a request.
func (c *conn) trailersLocked(st *stream, f *http2.MetaHeadersFrame) error {
	switch {
	case st.complete:
		return streamError(st.id, http2.ErrCodeStreamClosed)
	case !f.StreamEnded() || len(f.PseudoFields()) > 0:
		return streamError(st.id, http2.ErrCodeProtocol)
	}
	if st.announced {
		size := memoryOf(f.Fields)
		if c.memory+size > c.maxRequestMemory() {
			return errFlood
		}
		c.memory += size
		st.memory += size
		st.trailer = slices.Clone(f.RegularFields())
	}
	return c.addLocked(st, nil, true)
}

func (c *conn) beginLocked(f *http2.MetaHeadersFrame, size int) error {
	st := &stream{conn: c, memory: size, id: f.StreamID, complete: f.StreamEnded(), window: c.out.streamWindow, receive: newWindow(streamWindow), declared: -1}
	st.changed.L = &c.mu
	if !st.ask(f) || st.complete && st.declared > 0 {
		return streamError(st.id, http2.ErrCodeProtocol)
	}
	st.tooLong = f.Truncated
	var ctx context.Context
	ctx, st.cancel = context.WithCancel(c.base)
	st.request = st.request.WithContext(ctx)
	st.answer.begin(st)
	if len(c.streams) == 0 && c.running == 0 {
		c.idle.Stop()
	}
	c.streams[st.id] = st
	c.running++
	c.memory += size
	c.unstarted = append(c.unstarted, st)
	return nil
}

// ask makes the request. It returns false if the head is malformed.
func (st *stream) ask(f *http2.MetaHeadersFrame) bool {
	r := &http.Request{
		Method: f.PseudoValue("method"), Host: f.PseudoValue("authority"), RequestURI: f.PseudoValue("path"),
		Proto: "HTTP/2.0", ProtoMajor: 2, Body: http.NoBody, TLS: &st.conn.secure, RemoteAddr: st.conn.remote,
	}
	var ok bool
	if r.Header, ok = st.conn.names.header(f); !ok || !setTarget(r, f) {
		return false
	}
	announce(r)
	st.announced = r.Trailer != nil
	if httpguts.HeaderValuesContainsToken(r.Header["Expect"], "100-continue") {
		st.expectsContinue = true
		delete(r.Header, "Expect")
	}
	if !st.complete {
		r.Body, r.ContentLength = body{st}, -1
	}
	if lengths := r.Header["Content-Length"]; len(lengths) > 0 {
		n, err := strconv.ParseUint(lengths[0], 10, 63)
		if err != nil || len(lengths) > 1 {
			return false
		}
		st.declared, r.ContentLength = int64(n), int64(n)
	}
	st.request = r
	return true
}

// setTarget sets the method and URL of a request. It returns false if the pseudo-header fields are malformed.
func setTarget(r *http.Request, f *http2.MetaHeadersFrame) bool {
	path, scheme, connects := r.RequestURI, f.PseudoValue("scheme"), r.Method == http.MethodConnect
	switch {
	case f.PseudoValue("status") != "" || f.PseudoValue("protocol") != "":
		return false
	case connects && (path != "" || scheme != "" || r.Host == ""):
		return false
	case !connects && (r.Method == "" || !strings.HasPrefix(path, "/") && path != "*" || scheme != "https" && scheme != "http"):
		return false
	}
	if r.Host == "" {
		r.Host = r.Header.Get("Host")
	}
	delete(r.Header, "Host")
	if connects {
		r.URL, r.RequestURI = &url.URL{Host: r.Host}, r.Host
		return true
	}
	var err error
	r.URL, err = url.ParseRequestURI(path)
	return err == nil
}

// announce sets which trailers may follow. They get their values when the body has been read.
func announce(r *http.Request) {
	for name := range announced(r.Header["Trailer"]) {
		if r.Trailer == nil {
			r.Trailer = http.Header{}
		}
		r.Trailer[name] = nil
	}
	delete(r.Header, "Trailer")
}

// header copies the fields of a request's head. It returns false if one of them is not allowed in HTTP/2.
func (n *names) header(f *http2.MetaHeadersFrame) (http.Header, bool) {
	fields := f.RegularFields()
	h, values, cookies := make(http.Header, min(len(fields), 64)), make([]string, len(fields)), []string(nil)
	for i, field := range fields {
		key := n.canonical(field.Name)
		switch key {
		case "Connection", "Proxy-Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade":
			return nil, false
		case "Te":
			if field.Value != "trailers" {
				return nil, false
			}
		case "Cookie": // may come in pieces
			cookies = append(cookies, field.Value)
			continue
		}
		if before := h[key]; before != nil {
			h[key] = append(before, field.Value)
			continue
		}
		values[i] = field.Value
		h[key] = values[i : i+1 : i+1]
	}
	if cookies != nil {
		h["Cookie"] = []string{strings.Join(cookies, "; ")}
	}
	return h, true
}

// names caches the canonical form of a client's field names. Only one goroutine uses it.
type names map[string]string

// maxNames is how many names are cached, longestName how long they may be: clients send few different ones.
const maxNames, longestName = 100, 64

func (n *names) canonical(wire string) string {
	if name, ok := commonNames()[wire]; ok {
		return name
	}
	if name, ok := (*n)[wire]; ok {
		return name
	}
	name := textproto.CanonicalMIMEHeaderKey(wire)
	if *n == nil {
		*n = names{}
	}
	if len(*n) < maxNames && len(wire) <= longestName {
		(*n)[wire] = name
	}
	return name
}

// commonNames are the field names that most requests and answers have.
var commonNames = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for _, name := range []string{
		"Accept", "Accept-Encoding", "Audit-Id", "Authorization", "Cache-Control", "Content-Encoding", "Content-Length", "Content-Type", "Cookie", "Date", "Etag",
		"Expect", "Host", "If-None-Match", "Last-Modified", "Location", "Te", "Trailer", "User-Agent", "Vary", "Warning", "X-Content-Type-Options",
		"Kubectl-Command", "Kubectl-Session", "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid",
	} {
		m[strings.ToLower(name)] = name
	}
	return m
})
