package auth_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/pki"
)

// known is a token and its holder.
type known map[string]string

func (k known) Holder(_ context.Context, token string, _ []string) (auth.Holder, error) {
	name, ok := k[token]
	if !ok {
		return auth.Holder{}, auth.ErrUnknownToken
	}
	return auth.Holder{User: auth.User{Name: name}}, nil
}

// failing is a source that cannot be asked, or one that says that a token is its own and wrong.
type failing struct{ err error }

func (f failing) Holder(context.Context, string, []string) (auth.Holder, error) {
	return auth.Holder{}, f.err
}

func TestTheNextSourceIsAskedForWhatOneDoesNotKnow(t *testing.T) {
	down := errors.New("the store does not answer")
	good := known{"secret": "bob"}
	for _, c := range []struct {
		name    string
		sources auth.Sources
		token   string
		want    string
		err     error
	}{
		{"the second knows", auth.Sources{known{}, good}, "secret", "bob", nil},
		{"the first says it is wrong", auth.Sources{failing{auth.ErrUnauthorized}, good}, "secret", "bob", nil},
		{"the first is down", auth.Sources{failing{down}, good}, "secret", "bob", nil},
		{"nobody knows", auth.Sources{known{}, good}, "other", "", auth.ErrUnknownToken},
		{"one is down and might know", auth.Sources{failing{down}, good}, "other", "", down},
		{"one says it is wrong", auth.Sources{failing{auth.ErrUnauthorized}, good}, "other", "", auth.ErrUnauthorized},
	} {
		h, err := c.sources.Holder(t.Context(), c.token, nil)
		if h.User.Name != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", c.name, h.User.Name, err)
		}
	}
}

func TestNothingBehindSeesTheCredentials(t *testing.T) {
	r := &http.Request{Header: http.Header{
		"Authorization":          {"Bearer secret"},
		"Sec-Websocket-Protocol": {"v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0", "base64url.bearer.authorization.k8s.io.c2VjcmV0,v5.channel.k8s.io"},
		"Accept":                 {"*/*"},
	}}
	got := auth.Forget(r)
	if got.Header.Get("Authorization") != "" || strings.Contains(strings.Join(got.Header["Sec-Websocket-Protocol"], " "), "bearer") {
		t.Errorf("%v", got.Header)
	}
	if all := strings.Join(got.Header["Sec-Websocket-Protocol"], " "); all != "v4.channel.k8s.io v5.channel.k8s.io" || got.Header.Get("Accept") != "*/*" {
		t.Errorf("%v", got.Header)
	}
	if r.Header.Get("Authorization") == "" {
		t.Error("the request itself has been changed")
	}
	plain := &http.Request{Header: http.Header{"Accept": {"*/*"}}}
	if auth.Forget(plain) != plain {
		t.Error("a request without credentials is copied")
	}
}

func TestOneGoodProofIsEnough(t *testing.T) {
	ours, err := pki.Open("", nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	others, err := pki.Open("", nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	requests := &auth.Requests{Clients: ours.Clients, Tokens: known{"secret": "bob"}}
	for _, c := range []struct {
		name  string
		chain *x509.Certificate
		token string
		want  string // nobody if empty
	}{
		{"nothing", nil, "", auth.Anonymous},
		{"a good certificate", ours.Admin.Certificate, "", "admin"},
		{"a good token", nil, "secret", "bob"},
		{"both", ours.Admin.Certificate, "secret", "admin"},
		{"a good certificate and a wrong token", ours.Admin.Certificate, "wrong", "admin"},
		{"a stranger's certificate and a good token", others.Admin.Certificate, "secret", "bob"},
		{"a stranger's certificate", others.Admin.Certificate, "", ""},
		{"a wrong token", nil, "wrong", ""},
		{"a stranger's certificate and a wrong token", others.Admin.Certificate, "wrong", ""},
		{"the certificate that the server shows", ours.Serving.Certificate, "", ""},
	} {
		r := &http.Request{Header: http.Header{}, TLS: &tls.ConnectionState{}}
		if c.chain != nil {
			r.TLS.PeerCertificates = []*x509.Certificate{c.chain}
		}
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		u, err := requests.Authenticate(r)
		if u.Name != c.want || (c.want == "") != errors.Is(err, auth.ErrUnauthorized) {
			t.Errorf("%s: %q, %v", c.name, u.Name, err)
		}
	}
}
