//go:build linux

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/kubelet"
	"github.com/millrace/millrace/internal/kubelet/pressure"
	"github.com/millrace/millrace/internal/kubelet/server"
	"github.com/millrace/millrace/internal/kubelet/worker"
)

// authority signs the certificates of those who call a node.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.cert, a.key = a.sign(template, nil)
	return a
}

func (a *authority) sign(template *x509.Certificate, by *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// config is how somebody with a name calls.
func (a *authority) config(name, host string) *rest.Config {
	cert, key := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return &rest.Config{Host: host, TLSClientConfig: rest.TLSClientConfig{
		Insecure: true,
		CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), KeyData: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
	}}
}

// alone is a kubelet without an API server, on real containers.
type alone struct {
	t                  *testing.T
	manifests          string
	options            kubelet.Options
	stop               func()
	authority          *authority
	url                string
	caller, stranger   *rest.Config
	callerClient, none *http.Client
}

func newAlone(t *testing.T) *alone {
	a := &alone{t: t, manifests: t.TempDir(), authority: newAuthority(t)}
	port := portOf(t, "127.0.0.1")
	a.url = "https://" + port
	a.options = kubelet.Options{
		Name: "node", Socket: socket(t), Root: rootDirectory(t), Manifests: a.manifests, SourceEvery: time.Second, Addresses: []string{"127.0.0.1"},
		Backoff:  worker.Backoff{Initial: 300 * time.Millisecond, Max: time.Second},
		Eviction: pressure.Limits{Hard: pressure.Thresholds{}}, // whatever this machine is short of
		Server:   server.Access{Listen: port, Clients: a.authority.pool(), Names: []string{"api"}},
	}
	a.caller, a.stranger = a.authority.config("api", a.url), a.authority.config("somebody", a.url)
	var err error
	if a.callerClient, err = rest.HTTPClientFor(a.caller); err != nil {
		t.Fatal(err)
	}
	a.none = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	a.start()
	t.Cleanup(func() {
		entries, _ := filepath.Glob(a.manifests + "/*")
		for _, e := range entries {
			os.Remove(e)
		}
		a.until("everything is gone", func() bool {
			all, err := openCRI(t).Pods(context.Background())
			for _, p := range all {
				if strings.HasSuffix(p.Name, "-node") {
					return false
				}
			}
			return err == nil
		})
		a.stop()
	})
	return a
}

func (a *alone) start() {
	a.t.Helper()
	k, err := kubelet.New(a.options)
	if err != nil {
		a.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	a.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			a.t.Error(err)
		}
	}
}

func (a *alone) until(what string, holds func() bool) {
	a.t.Helper()
	for end := time.Now().Add(testTimeout); !holds(); time.Sleep(50 * time.Millisecond) { // real containers keep real time
		if time.Now().After(end) {
			a.t.Fatalf("it never was that %s", what)
		}
	}
}

func (a *alone) manifest(name, command string, more ...string) {
	a.t.Helper()
	text := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  terminationGracePeriodSeconds: 1\n  containers:\n  - name: main\n    image: %s\n    command: [/bin/sh, -c, %q]\n%s",
		name, image, command, strings.Join(more, "\n"))
	if err := os.WriteFile(filepath.Join(a.manifests, name+".yaml"), []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func (a *alone) get(client *http.Client, path string) (int, string) {
	a.t.Helper()
	answer, err := client.Get(a.url + path)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

func (a *alone) logs(name, query string) string {
	a.t.Helper()
	_, text := a.get(a.callerClient, "/containerLogs/default/"+name+"-node/main"+query)
	return text
}
