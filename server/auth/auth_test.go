package auth_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/millrace/millrace/server/auth"
	"github.com/millrace/millrace/server/pki"
)

// known is a token and its holder.
type known map[string]string

func (k known) Holder(_ context.Context, token string) (auth.User, bool, error) {
	name, ok := k[token]
	return auth.User{Name: name}, ok, nil
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
	requests := &auth.Requests{Clients: ours.Clients, Tokens: []auth.Tokens{known{"secret": "bob"}}}
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
