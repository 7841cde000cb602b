package webhook_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/millrace/millrace/internal/server/webhook"
)

// credentials reads a kubeconfig.
func credentials(t *testing.T, text string) *webhook.Credentials {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	must(t, os.WriteFile(path, []byte("apiVersion: v1\nkind: Config\n"+text), 0o600))
	c, err := webhook.ReadCredentials(path)
	must(t, err)
	return c
}

func TestTheUserOfTheServerIsTheOneThatCalls(t *testing.T) {
	h := newHook(t, "a.example.com", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(r.Header.Get("Authorization"))) })
	c := client(t, webhook.Options{Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, h.Listener.Addr().String())
	}})
	const others = "users:\n- {name: b.example.com, user: {token: other}}\n"
	for name, one := range map[string]struct{ config, url, want string }{
		"none":                {others, "https://a.example.com/", ""},
		"no users":            {"", "https://a.example.com/", ""},
		"host":                {others + "- {name: a.example.com, user: {token: t}}\n- {name: '*', user: {token: all}}", "https://a.example.com/p", "Bearer t"},
		"port of HTTPS":       {others + "- {name: a.example.com, user: {token: t}}", "https://a.example.com:443/", "Bearer t"},
		"other port":          {others + "- {name: a.example.com, user: {token: t}}", "https://a.example.com:8443/", ""},
		"host and port":       {others + "- {name: 'a.example.com:8443', user: {token: t}}", "https://a.example.com:8443/", "Bearer t"},
		"domain":              {others + "- {name: '*.com', user: {token: far}}\n- {name: '*.example.com', user: {token: near}}", "https://a.example.com/", "Bearer near"},
		"domain and port":     {others + "- {name: '*.com:8443', user: {token: far}}", "https://a.example.com:8443/", "Bearer far"},
		"everybody":           {others + "- {name: '*', user: {username: u, password: p}}", "https://a.example.com/", "Basic dTpw"},
		"the current context": {others + "contexts:\n- {name: c, context: {user: b.example.com}}\ncurrent-context: c", "https://a.example.com/", "Bearer other"},
	} {
		got, err := c.Post(t.Context(), webhook.Target{URL: one.url, CABundle: h.bundle, Credentials: credentials(t, one.config)}, nil)
		if err != nil || string(got) != one.want {
			t.Errorf("%s: called with %q, %v, want %q", name, got, err, one.want)
		}
	}
}

func TestTheUserOfAServiceCallsItsEndpoint(t *testing.T) {
	w := newWorld(t)
	h := newHook(t, serviceHost, func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(r.Header.Get("Authorization"))) })
	c := client(t, webhook.Options{Registry: w.Registry, Dial: toLoopback})
	w.create("", "services", service())
	w.create(discoveryv1.GroupName, "endpointslices", slice(h.port, "10.1.0.2"))
	target := webhook.Target{Service: &webhook.Service{Namespace: "n", Name: "hook"}, CABundle: h.bundle,
		Credentials: credentials(t, "users:\n- {name: '*.n.svc', user: {token: t}}")}
	if got, err := c.Post(t.Context(), target, nil); err != nil || string(got) != "Bearer t" {
		t.Errorf("called with %q, %v", got, err)
	}
}

func TestACertificateIsShownAndKeepsConnectionsApart(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, c := range r.TLS.PeerCertificates {
			w.Write([]byte(c.Subject.String()))
		}
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	defer s.Close()
	own := s.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	must(t, err)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]})
	text := func(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
	with := credentials(t, "users:\n- {name: '*', user: {client-certificate-data: "+text(certificate)+
		", client-key-data: "+text(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))+"}}")
	c := client(t, webhook.Options{})
	for _, of := range []*webhook.Credentials{nil, with, nil} {
		got, err := c.Post(t.Context(), webhook.Target{URL: s.URL, CABundle: certificate, Credentials: of}, nil)
		if err != nil || strings.Contains(string(got), "Acme") != (of != nil) {
			t.Errorf("called with %q, %v", got, err)
		}
	}
}

func TestCredentialsThatCannotBeReadAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no file":        "",
		"no kubeconfig":  "users: [",
		"no certificate": "apiVersion: v1\nkind: Config\nusers:\n- {name: a, user: {client-certificate: none, client-key: none}}",
	} {
		path := filepath.Join(t.TempDir(), "config")
		if text != "" {
			must(t, os.WriteFile(path, []byte(text), 0o600))
		}
		if _, err := webhook.ReadCredentials(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
