package access

import (
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/assembly"
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
		log := slog.New(slog.DiscardHandler)
		o := &Options{Logger: log, TLS: TLS{MinVersion: tls.VersionTLS13, Named: []NamedPair{{CertFile: certFile, KeyFile: keyFile}}}}
		l := assembly.New(log)
		defer l.Close()
		c, err := o.openCertificates(nil, l)
		if err != nil {
			t.Fatal(err)
		}
		served := func() *tls.Certificate {
			config, err := c.TLS().GetConfigForClient(&tls.ClientHelloInfo{ServerName: "named.example"})
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
