package millrace

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/server/connections"
	"github.com/millrace/millrace/internal/server/pki"
	"github.com/millrace/millrace/internal/server/registry"
)

// KubeletOptions configure the API server's connections to kubelets. Zero values mean the defaults.
type KubeletOptions struct {
	// CertFile and KeyFile have the client certificate that identifies the API server to kubelets. They are read again when they change. By
	// default the cluster's own CA signs one. The nodes of this process serve that one without asking anybody.
	CertFile, KeyFile string
	// Timeout bounds how long connecting to a kubelet may take: by default 30 seconds, and 10 of them for TLS.
	Timeout time.Duration
	// AddressTypes are the types of node addresses to use, in order of preference: by default InternalIP, ExternalIP, Hostname, InternalDNS,
	// ExternalDNS.
	AddressTypes []string
}

// connections returns the transport to kubelets and to what runs on nodes.
func (c *Cluster) connections(reg *registry.Registry) (*connections.Connections, error) {
	k := c.options.Serving.Kubelets
	o := connections.Options{Registry: reg, Timeout: k.Timeout, Own: c.owns, Logger: c.options.Logger}
	for _, kind := range k.AddressTypes {
		o.AddressTypes = append(o.AddressTypes, corev1.NodeAddressType(kind))
	}
	var err error
	if o.Certificate, err = c.kubeletCertificate(); err != nil {
		return nil, err
	}
	if o.Authorities, err = c.kubeletAuthorities(); err != nil {
		return nil, err
	}
	return connections.New(o), nil
}

// kubeletCertificate returns the client certificate for kubelets.
func (c *Cluster) kubeletCertificate() (func() *tls.Certificate, error) {
	k := c.options.Serving.Kubelets
	if k.CertFile == "" && k.KeyFile == "" {
		client, err := c.certificates.keys.Client(kubeletClient, nil)
		if err != nil {
			return nil, err
		}
		return client.Certificate, nil
	}
	if c.options.Nodes > 0 || c.options.Runtime != "" {
		return nil, errors.New("a cluster with nodes of its own needs its own client certificate for kubelets")
	}
	return c.followPair("client certificate for kubelets", k.CertFile, k.KeyFile)
}

// followPair reads the files of a certificate, and reads them again when they change.
func (c *Cluster) followPair(what, certFile, keyFile string) (func() *tls.Certificate, error) {
	pair, err := pki.WatchPair(c.options.Logger, certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	c.run(what, pair.Run)
	return pair.Get, nil
}

// kubeletAuthorities returns the authorities of the kubelets' serving certificates; nil if these are not verified.
func (c *Cluster) kubeletAuthorities() (*x509.CertPool, error) {
	file := c.options.Serving.KubeletCAFile
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("authorities of kubelets: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("authorities of kubelets: %s holds no PEM certificate", file)
	}
	return pool, nil
}
