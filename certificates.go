package millrace

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/millrace/millrace/kubelet/server"
	"github.com/millrace/millrace/server/connections"
	"github.com/millrace/millrace/server/pki"
	"github.com/millrace/millrace/server/registry"
)

// kubeletClient is the name by which kubelets know the API server.
const kubeletClient = "kube-apiserver-kubelet-client"

// certificates are by which the server and its clients know each other. They are renewed, and read again when files change.
type certificates struct {
	keys    *pki.Rotating
	serving func() *tls.Certificate
	clients func() *x509.CertPool
	signing *ecdsa.PrivateKey // of service account tokens
	runs    []func(context.Context) error
}

func (c *Cluster) openCertificates() (err error) {
	o, log := c.options.Serving, c.options.Logger
	k := &certificates{}
	if k.keys, err = pki.OpenRotating(c.keyFolder(), c.hosts(), log); err != nil {
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
	if o.ClientCAFile != "" {
		authorities, err := pki.WatchAuthorities(log, k.keys.Keys().Clients, o.ClientCAFile)
		if err != nil {
			return fmt.Errorf("authorities of clients: %w", err)
		}
		k.clients, k.runs = authorities.Get, append(k.runs, authorities.Run)
	}
	k.signing = k.keys.Keys().Signing
	if o.SigningKeyFile != "" {
		if k.signing, err = pki.ReadKey(o.SigningKeyFile); err != nil {
			return fmt.Errorf("key of service account tokens: %w", err)
		}
	}
	c.certificates = k
	c.run("certificates", k.runs...)
	return nil
}

func (c *Cluster) keyFolder() string {
	if c.options.Keys != "" || c.options.Data == "" {
		return c.options.Keys
	}
	return filepath.Join(c.options.Data, "pki")
}

// hosts are what the serving certificate is good for.
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

// authorities are those by which clients know the server: its own, and a certificate from elsewhere as such.
func (c *Cluster) authorities() []byte {
	all := [][]byte{c.certificates.keys.Keys().Authority.CertPEM}
	if file := c.options.Serving.CertFile; file != "" {
		if text, err := os.ReadFile(file); err == nil { // it was read at the start
			all = append(all, text)
		}
	}
	return bytes.Join(all, nil)
}

// connections are how requests reach kubelets and what runs on nodes.
func (c *Cluster) connections(reg *registry.Registry) (*connections.Connections, error) {
	client, err := c.certificates.keys.Client(kubeletClient, nil)
	if err != nil {
		return nil, err
	}
	o := connections.Options{Registry: reg, Certificate: client.Certificate, Own: c.owns, Logger: c.options.Logger}
	if file := c.options.Serving.KubeletCAFile; file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("authorities of kubelets: %w", err)
		}
		if o.Authorities = x509.NewCertPool(); !o.Authorities.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("authorities of kubelets: %s holds no PEM certificate", file)
		}
	}
	return connections.New(o), nil
}

// owns tells whether the server listens at an address: at its port, on the address that it listens on or, if that is all of
// them, on any of this machine.
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
		return true // and cannot be told from the others
	}
	return slices.ContainsFunc(addresses, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().Unmap() == at.Addr()
	})
}

// access lets the API server, and nobody else, into the servers of this cluster's nodes. A cluster without a port has none of them.
func (c *Cluster) access() server.Access {
	if c.options.Listen == noPort {
		return server.Access{}
	}
	return server.Access{Clients: c.certificates.keys.Keys().Clients(), Names: []string{kubeletClient}}
}
