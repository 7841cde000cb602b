package auth

import (
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// FrontProxy believes proxies that have authenticated their clients: who they say, in headers, is who asks. A proxy
// proves with a client certificate that it is one; the headers of anybody else mean nothing.
type FrontProxy struct {
	// Clients returns the authorities of proxies' certificates.
	Clients func() *x509.CertPool
	// Names are the common names that such certificates may have; none allows all.
	Names []string
	// UserHeaders, UIDHeaders and GroupHeaders name the headers. Of the first two the first that is there counts, of
	// groups all. ExtraPrefixes begin the names of others.
	UserHeaders, UIDHeaders, GroupHeaders, ExtraPrefixes []string
}

var errNotAllowed = errors.New("the common name of a proxy's certificate is not on the list")

// Authenticate finds out whom a proxy speaks for. It is false if there is no proxy, or none that names somebody.
func (p *FrontProxy) Authenticate(r *http.Request, now time.Time) (u User, ok bool, err error) {
	name := first(r.Header, p.UserHeaders)
	if name == "" || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return User{}, false, nil
	}
	leaf := r.TLS.PeerCertificates[0]
	o := x509.VerifyOptions{
		Roots: p.Clients(), Intermediates: x509.NewCertPool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range r.TLS.PeerCertificates[1:] {
		o.Intermediates.AddCert(c)
	}
	if _, err := leaf.Verify(o); err != nil {
		return User{}, false, errors.Join(ErrUnauthorized, err)
	}
	if len(p.Names) > 0 && !slices.Contains(p.Names, leaf.Subject.CommonName) {
		return User{}, false, errors.Join(ErrUnauthorized, errNotAllowed)
	}
	u = User{Name: name, UID: first(r.Header, p.UIDHeaders)}
	for _, header := range p.GroupHeaders {
		u.Groups = append(u.Groups, r.Header.Values(header)...)
	}
	u.Groups = WithAuthenticated(u.Groups)
	u.Extra = p.extra(r.Header)
	p.forget(r.Header)
	return u, true, nil
}

// first is the value of the first header that is there.
func first(h http.Header, names []string) string {
	for _, name := range names {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return ""
}

func (p *FrontProxy) extra(h http.Header) map[string][]string {
	var extra map[string][]string
	for _, prefix := range p.ExtraPrefixes {
		for name, values := range h {
			if len(name) <= len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
				continue
			}
			key := strings.ToLower(name[len(prefix):])
			if plain, err := url.PathUnescape(key); err == nil {
				key = plain
			}
			if extra == nil {
				extra = map[string][]string{}
			}
			extra[key] = append(extra[key], values...)
		}
	}
	return extra
}

// forget takes away the headers, so that nothing behind takes them for another proxy's.
func (p *FrontProxy) forget(h http.Header) {
	for _, names := range [][]string{p.UserHeaders, p.UIDHeaders, p.GroupHeaders} {
		for _, name := range names {
			h.Del(name)
		}
	}
	for _, prefix := range p.ExtraPrefixes {
		for name := range h {
			if len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
				delete(h, name)
			}
		}
	}
}
