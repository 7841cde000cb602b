package pki

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ServerOptions configure the TLS of a server. Serving and Clients are required. They are called for each handshake.
type ServerOptions struct {
	// Serving returns the server's certificate.
	Serving func() *tls.Certificate
	// Clients returns the authorities of client certificates.
	Clients func() *x509.CertPool
	// Named are certificates that are served instead to clients that ask for certain names.
	Named []NamedCertificate
	// MinVersion is the oldest version of TLS that is accepted: 1.2 by default. Suites and Curves are the cipher suites
	// and key exchanges that are accepted; nil means those of Go.
	MinVersion uint16
	Suites     []uint16
	Curves     []tls.CurveID
}

// NamedCertificate is a certificate for clients that ask for certain names (SNI).
type NamedCertificate struct {
	// Names are domains, whose first label may be "*", and addresses of this server, for clients that ask for no name.
	// Without Names the certificate is served for the domains that it contains.
	Names []string
	// Serving returns the certificate.
	Serving func() *tls.Certificate
}

// ServerTLS returns the configuration of a TLS server. It requests client certificates and does not verify them: the
// authenticator does.
func ServerTLS(o ServerOptions) *tls.Config {
	base := &tls.Config{
		MinVersion: cmp.Or(o.MinVersion, tls.VersionTLS12), CipherSuites: o.Suites, CurvePreferences: o.Curves,
		ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2", "http/1.1"},
	}
	config := base.Clone()
	config.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return o.certificate(hello), nil }
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		now := base.Clone()
		now.Certificates, now.ClientCAs = []tls.Certificate{*o.certificate(hello)}, o.Clients()
		return now, nil
	}
	return config
}

// certificate returns the certificate for a client. A name has precedence over a wildcard, names from the options over
// those in certificates, and an earlier certificate over a later one.
func (o *ServerOptions) certificate(hello *tls.ClientHelloInfo) *tls.Certificate {
	if len(o.Named) == 0 {
		return o.Serving()
	}
	name := asked(hello)
	_, domain, _ := strings.Cut(name, ".")
	for _, wanted := range []string{name, "*." + domain} {
		for _, names := range []func(NamedCertificate) []string{givenNames, containedNames} {
			for _, c := range o.Named {
				if slices.Contains(names(c), wanted) {
					return c.Serving()
				}
			}
		}
	}
	return o.Serving()
}

// asked returns the name for which a client asks, or the address that it has called.
func asked(hello *tls.ClientHelloInfo) string {
	if hello.ServerName != "" || hello.Conn == nil {
		return strings.ToLower(hello.ServerName)
	}
	host, _, _ := net.SplitHostPort(hello.Conn.LocalAddr().String()) // another kind of address matches no name
	return host
}

func givenNames(c NamedCertificate) []string { return lower(c.Names) }

// containedNames returns the domains in a certificate without names of its own. Addresses in it do not count.
func containedNames(c NamedCertificate) []string {
	leaf := c.Serving().Leaf
	if len(c.Names) > 0 || leaf == nil {
		return nil
	}
	names := slices.Clone(leaf.DNSNames)
	if cn := leaf.Subject.CommonName; net.ParseIP(cn) == nil && len(validation.IsDNS1123Subdomain(strings.TrimPrefix(cn, "*."))) == 0 {
		names = append(names, cn)
	}
	return lower(names)
}

func lower(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strings.ToLower(n)
	}
	return out
}
