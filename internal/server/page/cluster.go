package page

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/server/auth"
)

// read answers a request for the API by the user of the session.
func (p *Page) read(w http.ResponseWriter, r *http.Request) {
	s, ok := p.session(r)
	rest := strings.TrimPrefix(r.URL.Path, clusterPath)
	switch {
	case !ok:
		refuse(w, http.StatusUnauthorized, noSession)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		refuse(w, http.StatusMethodNotAllowed, "the page only reads")
	case r.Header.Get("Upgrade") != "" || !readable(rest):
		refuse(w, http.StatusForbidden, "the page does not read this")
	default:
		p.o.API.ServeHTTP(w, forAPI(r, rest, s.user))
	}
}

// passed are the headers that the API gets from a browser.
var passed = []string{"Accept", "Accept-Encoding", "If-None-Match", "User-Agent"}

// forAPI returns a request for the API: by a user, and without whatever else the browser says of who it is.
func forAPI(r *http.Request, path string, u auth.User) *http.Request {
	next := r.WithContext(auth.WithUser(r.Context(), u))
	next.URL = &url.URL{Path: path, RawQuery: r.URL.RawQuery}
	next.RequestURI = next.URL.RequestURI()
	next.Header = http.Header{}
	for _, name := range passed {
		if values := r.Header.Values(name); len(values) > 0 {
			next.Header[name] = values
		}
	}
	if loopback(r.RemoteAddr) {
		next.Header.Del("Accept-Encoding") // to compress is slower than to copy
	}
	next.Body, next.ContentLength, next.TransferEncoding = http.NoBody, 0, nil
	return next
}

func loopback(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// The paths that are read, by their first parts, and the subresources.
var (
	documents    = []string{"version", "livez", "readyz", "metrics"}
	asks         = []string{"history", "why", "effects"}
	subresources = []string{"status", "scale", "log"}
)

// readable reports whether the page reads a path. It names what it reads, so that a subresource that is a session, a
// proxy, or something that nobody has thought of yet is not read.
func readable(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if slices.Contains(parts, "") || slices.Contains(parts, ".") || slices.Contains(parts, "..") {
		return false
	}
	switch {
	case slices.Contains(asks, parts[0]):
		parts = parts[1:]
	case parts[0] == "at" && len(parts) < 3:
		return len(parts) == 2
	case parts[0] == "at":
		parts = parts[2:]
	}
	switch {
	case len(parts) == 0:
		return false
	case slices.Contains(documents, parts[0]):
		return len(parts) == 1
	case parts[0] == "api" && len(parts) > 2:
		return readableResource(parts[2:])
	case parts[0] == "apis" && len(parts) > 3:
		return readableResource(parts[3:])
	}
	return parts[0] == "api" || parts[0] == "apis"
}

// readableResource reports whether the page reads what follows the group version in a path: a collection, an object, or
// one of the subresources.
func readableResource(parts []string) bool {
	if parts[0] == "namespaces" && len(parts) > 3 {
		parts = parts[2:]
	}
	switch len(parts) {
	case 1, 2:
		return parts[0] != "watch" && parts[0] != "proxy"
	case 3: // of a namespace this is a collection in it, or its status
		return parts[0] == "namespaces" && parts[2] != "proxy" || slices.Contains(subresources, parts[2])
	}
	return false
}
