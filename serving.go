package millrace

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"github.com/millrace/millrace/kubelet/server"
	"github.com/millrace/millrace/server/apiserver"
	"github.com/millrace/millrace/server/auth"
	"github.com/millrace/millrace/server/connections"
	"github.com/millrace/millrace/server/registry"
)

// ServingOptions say how the API is served beyond the ordinary. Zero values are the ordinary.
type ServingOptions struct {
	// CertFile and KeyFile are served instead of a certificate of the cluster's own authority.
	CertFile, KeyFile string
	// ClientCAFile holds authorities whose client certificates are believed besides the cluster's own.
	ClientCAFile string
	// KubeletCAFile holds the authorities that must have signed the serving certificates of kubelets. Without it they are
	// believed as they are.
	KubeletCAFile string
	// MaxInFlight and MaxMutatingInFlight bound the requests that are served at the same time: 400 and 200 by default.
	MaxInFlight, MaxMutatingInFlight int
	// RequestTimeout ends requests that are not long-running, after a minute by default; MinRequestTimeout is the least time
	// that a watch stays open, half an hour by default.
	RequestTimeout, MinRequestTimeout time.Duration
	// BookmarkPeriod is how often a watch that asked for bookmarks gets one: every minute by default.
	BookmarkPeriod time.Duration
}

// kubeletClient is the name by which kubelets know the API server.
const kubeletClient = "kube-apiserver-kubelet-client"

func (s ServingOptions) bounds(o *apiserver.Options) {
	o.MaxInFlight, o.MaxMutatingInFlight = s.MaxInFlight, s.MaxMutatingInFlight
	o.RequestTimeout, o.MinRequestTimeout = s.RequestTimeout, s.MinRequestTimeout
	o.BookmarkPeriod = s.BookmarkPeriod
}

// tls is how the server shows who it is.
func (c *Cluster) tls() (*tls.Config, error) {
	config, s := c.keys.TLS(), c.options.Serving
	if s.CertFile == "" && s.KeyFile == "" {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("certificate to serve: %w", err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// authorities are those by which clients of the cluster know the server: a certificate from elsewhere is believed as such.
func (c *Cluster) authorities() []byte {
	all := [][]byte{c.keys.Authority.CertPEM}
	if file := c.options.Serving.CertFile; file != "" {
		if text, err := os.ReadFile(file); err == nil { // it was read at the start
			all = append(all, text)
		}
	}
	return bytes.Join(all, nil)
}

// clients are the authorities whose client certificates are believed.
func (c *Cluster) clients() (*x509.CertPool, error) {
	pool := c.keys.Clients()
	return pool, addCertificates(pool, c.options.Serving.ClientCAFile)
}

func addCertificates(pool *x509.CertPool, file string) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read authorities: %w", err)
	}
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("read authorities: %s holds no PEM certificate", file)
	}
	return nil
}

// connections are how requests reach kubelets and what runs on nodes.
func (c *Cluster) connections(reg *registry.Registry) (*connections.Connections, error) {
	client, err := c.keys.Client(kubeletClient, []string{auth.Masters}, time.Now())
	if err != nil {
		return nil, err
	}
	o := connections.Options{
		Registry:    reg,
		Certificate: &tls.Certificate{Certificate: [][]byte{client.Certificate.Raw}, PrivateKey: client.Key},
		Logger:      c.options.Logger,
	}
	if file := c.options.Serving.KubeletCAFile; file != "" {
		o.Authorities = x509.NewCertPool()
		if err := addCertificates(o.Authorities, file); err != nil {
			return nil, err
		}
	}
	return connections.New(o), nil
}

// access lets the API server, and nobody else, into the servers of this cluster's nodes. A cluster without a port has none of them.
func (c *Cluster) access() server.Access {
	if c.options.Listen == noPort {
		return server.Access{}
	}
	return server.Access{Clients: c.keys.Clients(), Names: []string{kubeletClient}}
}
