package millrace

import (
	"bytes"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/millrace/millrace/internal/kubelet/server"
	"github.com/millrace/millrace/internal/server/pki"
)

// kubeletClient is the common name of the API server's client certificate for kubelets.
const kubeletClient = "kube-apiserver-kubelet-client"

// certificates has the keys and certificates of the server, and the CAs for its clients. They are renewed, and read again when
// files change.
type certificates struct {
	keys    *pki.Rotating
	serving func() *tls.Certificate
	clients func() *x509.CertPool
	named   []pki.NamedCertificate
	signing crypto.Signer // signs service account tokens
	runs    []func(context.Context) error
}

func (c *Cluster) openCertificates() (err error) {
	o, log := c.options.Serving, c.options.Logger
	k := &certificates{}
	if k.keys, err = pki.OpenRotating(c.keyDirectory(), c.hosts(), log); err != nil {
		return err
	}
	pool := k.keys.Keys().Clients()
	k.serving, k.clients = k.keys.Serving, func() *x509.CertPool { return pool }
	k.runs = append(k.runs, k.keys.Run)
	if o.CertFile != "" || o.KeyFile != "" {
		pair, err := pki.WatchPair(log, o.CertFile, o.KeyFile)
		if err != nil {
			return fmt.Errorf("certificate to serve: %w", err)
		}
		k.serving, k.runs = pair.Get, append(k.runs, pair.Run)
	}
	if err := k.openNamed(c); err != nil {
		return err
	}
	if o.ClientCAFile != "" {
		authorities, err := pki.WatchAuthorities(log, k.keys.Keys().Clients, o.ClientCAFile)
		if err != nil {
			return fmt.Errorf("authorities of clients: %w", err)
		}
		k.clients, k.runs = authorities.Get, append(k.runs, authorities.Run)
	}
	k.signing = k.keys.Keys().Signing
	if o.Tokens.SigningKeyFile != "" {
		if k.signing, err = pki.ReadSigner(o.Tokens.SigningKeyFile); err != nil {
			return fmt.Errorf("key of service account tokens: %w", err)
		}
	}
	c.certificates = k
	c.run("certificates", k.runs...)
	return nil
}

func (c *Cluster) keyDirectory() string {
	if c.options.Keys != "" || c.options.Data == "" {
		return c.options.Keys
	}
	return filepath.Join(c.options.Data, "pki")
}

// hosts returns the names and addresses in the serving certificate.
func (c *Cluster) hosts() []string {
	hosts := []string{"localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	if host, _, err := net.SplitHostPort(c.address); err == nil {
		if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
			hosts = append(hosts, host)
		}
	}
	if c.advertised.IsValid() {
		hosts = append(hosts, c.advertised.Addr().String())
	}
	if first, err := firstAddress(c.options.ServiceRange); err == nil {
		hosts = append(hosts, first.String())
	}
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	return append(hosts, c.options.Hosts...)
}

// authorities returns the CA certificates with which clients verify the server: its own CA, and a serving certificate from a file
// as such.
func (c *Cluster) authorities() []byte {
	all := [][]byte{c.certificates.keys.Keys().Authority.CertPEM}
	if file := c.options.Serving.CertFile; file != "" {
		if text, err := os.ReadFile(file); err == nil { // it was read at the start, so it exists
			all = append(all, text)
		}
	}
	return bytes.Join(all, nil)
}

// owns reports whether the server listens at an address: at its port, on its listen address or, if that is unspecified, on any
// address of this machine.
func (c *Cluster) owns(at netip.AddrPort) bool {
	listening, err := netip.ParseAddrPort(c.address)
	if err != nil || at.Port() != listening.Port() {
		return false
	}
	if own := listening.Addr().Unmap(); !own.IsUnspecified() {
		return at.Addr() == own
	}
	if at.Addr().IsLoopback() {
		return true
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return true // the addresses cannot be listed, so it may be ours
	}
	return slices.ContainsFunc(addresses, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().Unmap() == at.Addr()
	})
}

// access configures the servers of this cluster's nodes, which the API server may call without asking. A cluster without a port has no such
// servers.
func (c *Cluster) access() server.Access {
	if c.options.Listen == noPort {
		return server.Access{}
	}
	return server.Access{Clients: c.certificates.keys.Keys().Clients(), Names: []string{kubeletClient}}
}

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
