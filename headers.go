package millrace

import (
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// HeaderOptions configure HTTP headers of the server's port. By default it sends none of them.
type HeaderOptions struct {
	// StrictTransport are the directives of the header Strict-Transport-Security.
	StrictTransport []string
	// Origins match the origins whose pages may call the server from a browser (CORS).
	Origins []*regexp.Regexp
	// GoAwayChance is the share of HTTP/2 requests after which the client is told to connect again, so that clients are spread over the servers
	// behind a load balancer.
	GoAwayChance float64
}

// originHeaders are the headers for browsers that show a page of an allowed origin.
var originHeaders = map[string]string{
	"Access-Control-Allow-Methods":     "POST, GET, OPTIONS, PUT, DELETE, PATCH",
	"Access-Control-Allow-Headers":     "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
	"Access-Control-Expose-Headers":    "Date",
	"Access-Control-Allow-Credentials": "true",
}

// around returns a handler that adds the headers to the answers of another one.
func (o HeaderOptions) around(h http.Handler) http.Handler {
	if len(o.StrictTransport) == 0 && len(o.Origins) == 0 && o.GoAwayChance == 0 {
		return h
	}
	strict := strings.Join(o.StrictTransport, "; ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strict != "" {
			w.Header().Set("Strict-Transport-Security", strict)
		}
		if r.ProtoMajor == 2 && rand.Float64() < o.GoAwayChance {
			w.Header().Set("Connection", "close") // HTTP/2 sends a GOAWAY frame for it
		}
		if o.allows(r.Header.Get("Origin")) {
			w.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
			for name, value := range originHeaders {
				w.Header().Set(name, value)
			}
			if r.Method == http.MethodOptions { // a browser asks before it sends the request
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		h.ServeHTTP(w, r)
	})
}

// allows reports whether pages of an origin may call the server.
func (o HeaderOptions) allows(origin string) bool {
	return origin != "" && slices.ContainsFunc(o.Origins, func(p *regexp.Regexp) bool { return p.MatchString(origin) })
}
