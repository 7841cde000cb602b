package web

import (
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// originHeaders are the headers for browsers that show a page of an allowed origin.
var originHeaders = map[string]string{
	"Access-Control-Allow-Methods":     "POST, GET, OPTIONS, PUT, DELETE, PATCH",
	"Access-Control-Allow-Headers":     "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
	"Access-Control-Expose-Headers":    "Date",
	"Access-Control-Allow-Credentials": "true",
}

// around returns a handler that adds the headers to the answers of another one.
func (h Headers) around(next http.Handler) http.Handler {
	if len(h.StrictTransport) == 0 && len(h.Origins) == 0 && h.GoAwayChance == 0 {
		return next
	}
	strict := strings.Join(h.StrictTransport, "; ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strict != "" {
			w.Header().Set("Strict-Transport-Security", strict)
		}
		if r.ProtoMajor == 2 && rand.Float64() < h.GoAwayChance {
			w.Header().Set("Connection", "close") // HTTP/2 sends a GOAWAY frame for it
		}
		if h.allows(r.Header.Get("Origin")) {
			w.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
			for name, value := range originHeaders {
				w.Header().Set(name, value)
			}
			if r.Method == http.MethodOptions { // a browser asks before it sends the request
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// allows reports whether pages of an origin may call the server.
func (h Headers) allows(origin string) bool {
	return origin != "" && slices.ContainsFunc(h.Origins, func(p *regexp.Regexp) bool { return p.MatchString(origin) })
}
