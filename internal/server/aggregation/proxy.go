package aggregation

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"log/slog"

	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/millrace/millrace/internal/server/auth"
)

// remote is a server that answers for a group version, as an APIService names it.
type remote struct {
	a           *Aggregator
	service     *v1.APIService
	connections *connections
	available   bool
}

// remoteOf is the remote of an APIService, with the connections of before if they lead to the same server.
func (a *Aggregator) remoteOf(before *snapshot, s *v1.APIService) *remote {
	r := &remote{a: a, service: s, available: isAvailable(s)}
	if before != nil {
		if old := before.remotes[s.Name]; old != nil && sameTarget(&old.service.Spec, &s.Spec) {
			r.connections = old.connections
			return r
		}
	}
	r.connections = a.connect(&s.Spec)
	return r
}

// newVia is the name by which this server knows its own requests when they come back.
func newVia() string { return "1.1 " + rand.Text() }

// headers that say who asks.
const (
	userHeader  = "X-Remote-User"
	uidHeader   = "X-Remote-Uid"
	groupHeader = "X-Remote-Group"
	extraHeader = "X-Remote-Extra-"
)

// idHeader names a request in audit logs.
const idHeader = "Audit-Id"

// ServeHTTP hands a request on. Its errors are texts, as Kubernetes'.
func (r *remote) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	switch {
	case slices.Contains(q.Header.Values("Via"), r.a.via):
		http.Error(w, "the request comes back to the server that handed it on", http.StatusLoopDetected)
		return
	case !r.available:
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return
	case r.connections.err != nil:
		http.Error(w, r.connections.err.Error(), http.StatusInternalServerError)
		return
	}
	transport := r.connections.shared
	if upgrading(q) {
		transport = r.connections.upgraded
	}
	ref := r.service.Spec.Service
	host := net.JoinHostPort(ref.Name+"."+ref.Namespace+".svc", strconv.Itoa(int(*ref.Port)))
	p := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL = &url.URL{Scheme: "https", Host: host, Path: p.In.URL.Path, RawPath: p.In.URL.RawPath, RawQuery: p.In.URL.RawQuery}
			p.Out.Host = host
			setIdentity(p.Out.Header, auth.UserFrom(p.In.Context()))
			p.Out.Header.Add("Via", r.a.via)
			p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
			p.SetXForwarded()
			p.Out.Header.Set("X-Forwarded-Uri", p.In.URL.Path)
		},
		ModifyResponse: func(answer *http.Response) error {
			answer.Header.Del(idHeader) // the one that asked has it already
			return nil
		},
		Transport: transport, FlushInterval: -1, ErrorLog: slog.NewLogLogger(r.a.log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, q *http.Request, err error) {
			if !errors.Is(err, context.Canceled) {
				r.a.log.Warn("a request could not be handed on", "service", r.service.Name, "path", q.URL.Path, "error", err)
			}
			http.Error(w, "error trying to reach service: "+err.Error(), http.StatusServiceUnavailable)
		},
	}
	p.ServeHTTP(w, q)
}

// setIdentity says who asks, and drops whatever the client said about that.
func setIdentity(h http.Header, u auth.User) {
	for name := range h {
		if strings.HasPrefix(name, "X-Remote-") || strings.HasPrefix(name, "Impersonate-") {
			h.Del(name)
		}
	}
	h.Del("Authorization")
	h.Set(userHeader, u.Name)
	if u.UID != "" {
		h.Set(uidHeader, u.UID)
	}
	for _, g := range u.Groups {
		h.Add(groupHeader, g)
	}
	for key, values := range u.Extra {
		for _, v := range values {
			h.Add(extraHeader+escaped(key), v)
		}
	}
}

// escaped is a key of the user's that can stand in the name of a header.
func escaped(key string) string {
	const legal = "!#$&'*+-.^_`|~"
	var b strings.Builder
	for i := range len(key) {
		c := key[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte(legal, c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte("0123456789ABCDEF"[c>>4])
			b.WriteByte("0123456789ABCDEF"[c&15])
		}
	}
	return b.String()
}

// upgrading tells whether a request wants its connection to speak something else.
func upgrading(q *http.Request) bool {
	for _, line := range q.Header.Values("Connection") {
		for word := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(word), "upgrade") {
				return true
			}
		}
	}
	return false
}
