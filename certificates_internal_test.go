package millrace

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/server/pki"
)

// writePair writes a new certificate for a name, and returns it.
func writePair(t *testing.T, name, certFile, keyFile string) pki.Pair {
	t.Helper()
	keys, err := pki.Open("", []string{name}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{certFile: keys.Serving.CertPEM, keyFile: keys.Serving.KeyPEM} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return keys.Serving
}

func TestTheCertificateOfANameIsServedAndReadAgain(t *testing.T) {
	directory := t.TempDir()
	certFile, keyFile := filepath.Join(directory, "tls.crt"), filepath.Join(directory, "tls.key")
	synctest.Test(t, func(t *testing.T) {
		first := writePair(t, "named.example", certFile, keyFile)
		o := Options{Listen: noPort, Controllers: []string{}, NoScheduler: true}
		o.Serving.TLS = TLSOptions{MinVersion: tls.VersionTLS13, Named: []NamedCertificateFiles{{CertFile: certFile, KeyFile: keyFile}}}
		c, err := Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		served := func() *tls.Certificate {
			config, err := c.certificates.tls(o.Serving.TLS).GetConfigForClient(&tls.ClientHelloInfo{ServerName: "named.example"})
			if err != nil || config.MinVersion != tls.VersionTLS13 {
				t.Fatalf("%v, %v", config, err)
			}
			return &config.Certificates[0]
		}
		if !served().Leaf.Equal(first.Certificate) {
			t.Error("another certificate is served")
		}
		second := writePair(t, "named.example", certFile, keyFile)
		time.Sleep(time.Minute)
		if !served().Leaf.Equal(second.Certificate) {
			t.Error("the replaced certificate is still served")
		}
	})
}

func TestAMissingCertificateOfANameEndsTheStart(t *testing.T) {
	o := Options{Listen: noPort, Controllers: []string{}, NoScheduler: true}
	o.Serving.TLS.Named = []NamedCertificateFiles{{CertFile: "none.crt", KeyFile: "none.key"}}
	c, err := Start(t.Context(), o)
	if err == nil {
		c.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "failed to load SNI cert and key: open none.crt") {
		t.Errorf("%v", err)
	}
}
