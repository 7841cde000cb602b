package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/kubelet/server"
)

// node has one pod with one container.
type node struct{}

var web = &corev1.Pod{
	ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"},
	Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
}

func (node) Pod(namespace, name string) (*corev1.Pod, bool) {
	return web, namespace == web.Namespace && name == web.Name
}
func (node) Pods() []*corev1.Pod { return []*corev1.Pod{web} }
func (node) Logs(_ context.Context, _ *corev1.Pod, container string, o *corev1.PodLogOptions, w io.Writer) error {
	_, err := fmt.Fprintf(w, "log of %s, previous %v\n", container, o.Previous)
	return err
}
func (node) Exec(_ context.Context, _ *corev1.Pod, _ string, command []string, s server.Streams) error {
	_, err := fmt.Fprint(s.Out, "ran ", command)
	return err
}
func (node) Attach(context.Context, *corev1.Pod, string, server.Streams) error { return nil }
func (node) Forward(context.Context, *corev1.Pod, int32, io.ReadWriteCloser) error {
	return nil
}
func (node) Healthy(context.Context) error { return nil }

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.key, a.cert = a.sign("authority", true)
	return a
}

func (a *authority) sign(name string, itself bool) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: itself, IPAddresses: []net.IP{{127, 0, 0, 1}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	parent, signer := template, key
	if !itself {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, cert
}

func (a *authority) pair(name string) tls.Certificate {
	key, cert := a.sign(name, false)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// client calls the server, with a certificate if there is one.
type client struct {
	t     *testing.T
	at    string
	http  http.Client
	token string
}

func (c *client) do(method, path string) (int, string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.at+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// serve starts a server that accepts only "api", and returns a function that makes clients.
func serve(t *testing.T, by *authority) func(...tls.Certificate) *client {
	t.Helper()
	return serveWith(t, by, nil)
}

// serveWith starts a server that asks a reviewer about clients other than "api".
func serveWith(t *testing.T, by *authority, reviewer *server.Reviewer) func(...tls.Certificate) *client {
	t.Helper()
	return serveOptions(t, by, server.Options{Reviewer: reviewer})
}

// serveOptions starts a server that is more than its certificates and listener.
func serveOptions(t *testing.T, by *authority, o server.Options) func(...tls.Certificate) *client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(by.cert)
	o.Node, o.Listener, o.Certificate, o.Clients, o.Names = node{}, listener, by.pair("node"), pool, []string{"api"}
	s := server.New(o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func(pairs ...tls.Certificate) *client {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: pairs}}
		t.Cleanup(transport.CloseIdleConnections)
		return &client{t: t, at: fmt.Sprintf("https://127.0.0.1:%d", s.Port()), http: http.Client{Transport: transport}}
	}
}

func TestOnlyTheAPIServerIsServed(t *testing.T) {
	ours := newAuthority(t)
	call := serve(t, ours)
	paths := []string{"/pods", "/containerLogs/default/web/main", "/exec/default/web/main", "/attach/default/web/main", "/portForward/default/web", "/run/default/web/main?cmd=id"}
	for name, c := range map[string]struct {
		client *client
		want   int
	}{
		"a client without a certificate":        {call(), http.StatusUnauthorized},
		"a certificate of somebody else's name": {call(ours.pair("alice")), http.StatusForbidden},
	} {
		for _, path := range paths {
			for _, method := range []string{"GET", "POST"} {
				if code, text := c.client.do(method, path); code != c.want && code != http.StatusMethodNotAllowed {
					t.Errorf("%s gets %d of %s %s: %s", name, code, method, path, text)
				}
			}
		}
		if code, _ := c.client.do("GET", "/healthz"); code != http.StatusOK {
			t.Errorf("%s does not learn that the node works: %d", name, code)
		}
	}
	strange := call(newAuthority(t).pair("api"))
	if answer, err := strange.http.Get(strange.at + "/pods"); err == nil {
		answer.Body.Close()
		if answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("a certificate of another authority gets %d", answer.StatusCode)
		}
	}
}

func TestAllPathsOfTheAPIServerAreServed(t *testing.T) {
	ours := newAuthority(t)
	api := serve(t, ours)(ours.pair("api"))
	for _, c := range []struct {
		method, path string
		code         int
		text         string
	}{
		{"GET", "/containerLogs/default/web/main?previous=true", 200, "log of main, previous true\n"},
		{"GET", "/containerLogs/default/web/main?tailLines=-1", 400, "tailLines: \"-1\" is no number\n"},
		{"GET", "/containerLogs/default/web/other", 404, "container \"other\" not found in pod \"web\"\n"},
		{"GET", "/containerLogs/default/none/main", 404, "pod \"none\" does not exist\n"},
		{"POST", "/run/default/web/main?cmd=ls&cmd=-l", 200, "ran [ls -l]"},
		{"POST", "/run/default/web/1/main?cmd=ls", 200, "ran [ls]"},
		{"POST", "/run/default/web/2/main?cmd=ls", 404, "pod \"web\" does not exist\n"},
		{"GET", "/run/default/web/main?cmd=ls", 405, "Method Not Allowed\n"}, // read access to the proxy does not run commands
	} {
		if code, text := api.do(c.method, c.path); code != c.code || text != c.text {
			t.Errorf("%s %s: %d %q", c.method, c.path, code, text)
		}
	}
}

func TestWithoutDebuggingPodsAreListedButNotEntered(t *testing.T) {
	by := newAuthority(t)
	c := serveOptions(t, by, server.Options{NoDebugging: true})(by.pair("api"))
	for path, want := range map[string]int{
		"/containerLogs/default/web/main": http.StatusMethodNotAllowed, "/exec/default/web/main": http.StatusMethodNotAllowed,
		"/portForward/default/web": http.StatusMethodNotAllowed, "/pods": http.StatusOK,
	} {
		if got, text := c.do(http.MethodGet, path); got != want {
			t.Errorf("%s: %d %s, want %d", path, got, text, want)
		}
	}
}
