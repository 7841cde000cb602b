package millrace

import (
	"crypto/tls"
	"fmt"

	"github.com/millrace/millrace/server/pki"
)

// TLSOptions configure the TLS of the server's port. Zero values mean the defaults of Go, and at least TLS 1.2.
type TLSOptions struct {
	// MinVersion is the oldest version of TLS that is accepted.
	MinVersion uint16
	// CipherSuites are those that are accepted for TLS 1.2 and older, Curves the key exchanges.
	CipherSuites []uint16
	Curves       []tls.CurveID
	// Named are certificates for clients that ask for certain names (SNI).
	Named []NamedCertificateFiles
}

// NamedCertificateFiles are the files of a certificate for clients that ask for certain names. They are read again when they change.
type NamedCertificateFiles struct {
	CertFile, KeyFile string
	// Names are domains, whose first label may be "*", and addresses of this server, for clients that ask for no name. Without Names the
	// certificate is served for the domains that it contains.
	Names []string
}

// openNamed reads the certificates for certain names.
func (k *certificates) openNamed(c *Cluster) error {
	for _, n := range c.options.Serving.TLS.Named {
		pair, err := pki.WatchPair(c.options.Logger, n.CertFile, n.KeyFile)
		if err != nil {
			return fmt.Errorf("failed to load SNI cert and key: %w", err)
		}
		k.named = append(k.named, pki.NamedCertificate{Names: n.Names, Serving: pair.Get})
		k.runs = append(k.runs, pair.Run)
	}
	return nil
}

// tls returns the configuration of the server's port.
func (k *certificates) tls(o TLSOptions) *tls.Config {
	return pki.ServerTLS(pki.ServerOptions{
		Serving: k.serving, Clients: k.clients, Named: k.named, MinVersion: o.MinVersion, Suites: o.CipherSuites, Curves: o.Curves,
	})
}
