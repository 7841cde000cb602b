package auth

import (
	"crypto/x509"
	"errors"
	"net/http"
	"reflect"
	"testing"
	"time"
)

func TestOnlyAProxySaysWhoAsks(t *testing.T) {
	now := time.Now()
	proxies, clients := newAuthority(t, now), newAuthority(t, now)
	pool := func(a *authority) func() *x509.CertPool {
		p := x509.NewCertPool()
		p.AddCert(a.cert)
		return func() *x509.CertPool { return p }
	}
	requests := &Requests{Clients: pool(clients), Now: func() time.Time { return now }, Proxy: &FrontProxy{
		Clients: pool(proxies), Names: []string{"front"}, UserHeaders: []string{"X-Remote-User", "X-Other-User"}, UIDHeaders: []string{"X-Remote-Uid"},
		GroupHeaders: []string{"X-Remote-Group"}, ExtraPrefixes: []string{"X-Remote-Extra-"},
	}}
	headers := http.Header{"X-Remote-User": {"alice"}, "X-Remote-Uid": {"7"}, "X-Remote-Group": {"dev", "ops"}, "X-Remote-Extra-Example.com%2fscope": {"a"}}
	for _, c := range []struct {
		name    string
		by      *x509.Certificate
		headers http.Header
		want    User
		refused bool
	}{
		{"a proxy", proxies.client("front"), headers, User{Name: "alice", UID: "7", Groups: []string{"dev", "ops", Authenticated}, Extra: map[string][]string{"example.com/scope": {"a"}}}, false},
		{"another name of the same authority", proxies.client("back"), headers, User{}, true},
		{"a client with the proxy's name", clients.client("front"), headers, User{Name: "front", Groups: []string{Authenticated}}, false},
		{"a proxy that names nobody", proxies.client("front"), http.Header{"X-Remote-Group": {Masters}}, User{}, true},
		{"nobody", nil, headers, User{Name: Anonymous, Groups: []string{Unauthenticated}}, false},
	} {
		r := &http.Request{Header: http.Header{}}
		if c.by != nil {
			r = requestBy(c.by)
		}
		r.Header = c.headers.Clone()
		u, err := requests.Authenticate(r)
		if u.Extra[CredentialID] != nil {
			u.Extra = nil // another test is about that
		}
		if !reflect.DeepEqual(u, c.want) || c.refused != errors.Is(err, ErrUnauthorized) {
			t.Errorf("%s: %+v, %v", c.name, u, err)
		}
		if u.Name == "alice" && len(r.Header) > 0 {
			t.Errorf("%s: the headers stay: %v", c.name, r.Header)
		}
	}
}
