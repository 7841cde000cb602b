package credentials

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// ClientOptions describe a node's client identity. Node is required, and so is either Bootstrap or a certificate in
// Directory.
type ClientOptions struct {
	// Bootstrap is used to reach the API server while there is no certificate, for example with a bootstrap token.
	// Later only its address and CA certificates are used.
	Bootstrap *rest.Config
	Node      string
	Directory string
	// Life is the requested lifetime of certificates: the signer decides by default.
	Life   time.Duration
	Logger *slog.Logger
}

// Client is the identity with which a node calls the API server. It is a loop.Runner, which renews the certificate
// before it expires.
type Client struct {
	*Rotating
	bootstrap *rest.Config
	dialer    *connrotation.Dialer
	config    *rest.Config
}

const dialTimeout = 30 * time.Second

// NewClient opens the identity. There may be no certificate yet: see Ensure.
func NewClient(o ClientOptions) (*Client, error) {
	c := &Client{bootstrap: rest.CopyConfig(o.Bootstrap)}
	plain := &net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}
	c.dialer = connrotation.NewDialer(plain.DialContext)
	template := func() *x509.CertificateRequest {
		return &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + o.Node, Organization: []string{"system:nodes"}}}
	}
	c.Rotating = Open(Options{
		Directory: o.Directory, Name: "kubelet-client", Signer: certificatesv1.KubeAPIServerClientKubeletSignerName, Life: o.Life, Template: template, Kube: c.kube,
		Usages:    []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		Exchanged: c.dialer.CloseAll, Logger: o.Logger,
	})
	return c, c.configure()
}

// configure makes the configuration of the clients. Each new connection uses the current certificate.
func (c *Client) configure() error {
	base, err := rest.TLSConfigFor(rest.AnonymousClientConfig(c.bootstrap))
	if err != nil {
		return fmt.Errorf("CA certificates of the API server: %w", err)
	}
	if base == nil {
		return errors.New("joining a node requires an API server with TLS")
	}
	base.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if present := c.Certificate(); present != nil {
			return present, nil
		}
		return &tls.Certificate{}, nil // the server decides what a client without a certificate may do
	}
	c.config = &rest.Config{Host: c.bootstrap.Host, APIPath: c.bootstrap.APIPath, Transport: &http.Transport{
		TLSClientConfig: base, DialContext: c.dialer.DialContext, ForceAttemptHTTP2: true, Proxy: http.ProxyFromEnvironment,
		TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 25, IdleConnTimeout: 90 * time.Second,
	}}
	c.config.CAData = c.bootstrap.CAData
	return nil
}

// Config returns the client configuration of this node.
func (c *Client) Config() *rest.Config {
	config := rest.CopyConfig(c.config)
	config.TLSClientConfig = rest.TLSClientConfig{} // the transport does TLS itself
	return config
}

// Close closes the connections.
func (c *Client) Close() { c.dialer.CloseAll() }

// kube returns the client that requests certificates: the node's own if its certificate is valid, else the bootstrap
// client.
func (c *Client) kube() (kubernetes.Interface, error) {
	if c.Good() {
		return kubernetes.NewForConfig(c.Config())
	}
	return kubernetes.NewForConfig(c.bootstrap)
}

// Run renews the certificate in time until ctx ends.
func (c *Client) Run(ctx context.Context) error {
	defer c.Close()
	return c.Rotating.Run(ctx)
}
