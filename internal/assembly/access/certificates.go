package access

import (
	"bytes"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/assembly/identity"
	"github.com/millrace/millrace/internal/server/pki"
)

// Certificates has the keys and certificates of the server, and the authorities of its clients. They are renewed, and
// read again when files change.
type Certificates struct {
	rotating *pki.Rotating
	// Clients are the authorities of clients, and Signing the key that signs service account tokens.
	Clients func() *x509.CertPool
	Signing crypto.Signer

	onlyGiven   bool
	serving     func() *tls.Certificate
	servingFile string
	named       []pki.NamedCertificate
	options     TLS
}

func (o *Options) openCertificates(hosts []string, l *assembly.List) (*Certificates, error) {
	directory := o.Keys
	if o.OnlyGiven {
		if err := o.checkGiven(); err != nil {
			return nil, err
		}
		directory = "" // keys that nobody trusts, and that end with the process
	}
	keys, err := pki.OpenRotating(directory, hosts, o.Logger)
	if err != nil {
		return nil, err
	}
	own := keys.Keys().Clients
	if o.OnlyGiven {
		own = x509.NewCertPool
	}
	pool := own()
	c := &Certificates{
		onlyGiven: o.OnlyGiven, rotating: keys, serving: keys.Serving, servingFile: o.Serving.CertFile, options: o.TLS,
		Clients: func() *x509.CertPool { return pool }, Signing: keys.Keys().Signing,
	}
	runs := []func(context.Context) error{keys.Run}
	if o.Serving.given() {
		pair, err := pki.WatchPair(o.Logger, o.Serving.CertFile, o.Serving.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("certificate to serve: %w", err)
		}
		c.serving, runs = pair.Get, append(runs, pair.Run)
	}
	for _, n := range o.TLS.Named {
		pair, err := pki.WatchPair(o.Logger, n.CertFile, n.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("failed to load SNI cert and key: %w", err)
		}
		c.named, runs = append(c.named, pki.NamedCertificate{Names: n.Names, Serving: pair.Get}), append(runs, pair.Run)
	}
	if o.ClientCAFile != "" {
		authorities, err := pki.WatchAuthorities(o.Logger, own, o.ClientCAFile)
		if err != nil {
			return nil, fmt.Errorf("authorities of clients: %w", err)
		}
		c.Clients, runs = authorities.Get, append(runs, authorities.Run)
	}
	if o.Tokens.SigningKeyFile != "" {
		if c.Signing, err = pki.ReadSigner(o.Tokens.SigningKeyFile); err != nil {
			return nil, fmt.Errorf("key of service account tokens: %w", err)
		}
	}
	l.Run("certificates", runs...)
	return c, nil
}

// checkGiven refuses to start with only what is given if something is not.
func (o *Options) checkGiven() error {
	switch {
	case !o.Serving.given(), o.ClientCAFile == "", o.Tokens.SigningKeyFile == "":
		return errors.New("a cluster without keys of its own needs a serving certificate, authorities of clients, and a key that signs tokens")
	case o.OwnNodes:
		return errors.New("a cluster with nodes of its own needs its own keys")
	}
	return nil
}

// OnlyGiven reports whether the cluster has no keys of its own.
func (c *Certificates) OnlyGiven() bool { return c.onlyGiven }

// Keys returns the keys of the cluster's own authorities, and what they have signed, as of now.
func (c *Certificates) Keys() *pki.Keys { return c.rotating.Keys() }

// names returns the names and addresses in the serving certificate that need not be given.
func (a *Access) names() []string {
	names := []string{"localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	names = append(names, a.address.Hosts()...)
	names = append(names, a.o.ServiceAddress.String())
	if host, err := os.Hostname(); err == nil {
		names = append(names, host)
	}
	return names
}

// Authorities returns the CA certificates with which clients verify the server: its own CA, and a serving certificate
// from a file as such.
func (c *Certificates) Authorities() []byte {
	var all [][]byte
	if !c.onlyGiven {
		all = append(all, c.rotating.Keys().Authority.CertPEM)
	}
	if c.servingFile != "" {
		if text, err := os.ReadFile(c.servingFile); err == nil { // it was read at the start, so it exists
			all = append(all, text)
		}
	}
	return bytes.Join(all, nil)
}

// TLS returns the configuration of the server's port.
func (c *Certificates) TLS() *tls.Config {
	return pki.ServerTLS(pki.ServerOptions{
		Serving: c.serving, Clients: c.Clients, Named: c.named, MinVersion: c.options.MinVersion, Suites: c.options.CipherSuites, Curves: c.options.Curves,
	})
}

// kubeletCertificate returns the client certificate for kubelets.
func (a *Access) kubeletCertificate(l *assembly.List) (func() *tls.Certificate, error) {
	if !a.o.Kubelets.given() && a.o.OnlyGiven {
		return noCertificate, nil
	}
	if !a.o.Kubelets.given() {
		client, err := a.rotating.Client(identity.KubeletClient, nil)
		if err != nil {
			return nil, err
		}
		return client.Certificate, nil
	}
	if a.o.OwnNodes {
		return nil, errors.New("a cluster with nodes of its own needs its own client certificate for kubelets")
	}
	return follow("client certificate for kubelets", a.o.Kubelets, a.o.Logger, l)
}

// noCertificate is what a client without a certificate shows a server that asks for one.
func noCertificate() *tls.Certificate { return &tls.Certificate{} }

// KubeletAuthorities returns the authorities of the kubelets' serving certificates; nil if these are not verified.
func (a *Access) KubeletAuthorities() (*x509.CertPool, error) {
	file := a.o.KubeletCAFile
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

// follow reads the files of a certificate, and reads them again when they change.
func follow(what string, files Pair, log *slog.Logger, l *assembly.List) (func() *tls.Certificate, error) {
	pair, err := pki.WatchPair(log, files.CertFile, files.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	l.Run(what, pair.Run)
	return pair.Get, nil
}
