package access

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/pki"
)

// ProxyIdentity is how this server identifies itself as a front proxy, and what it tells others about front proxies.
type ProxyIdentity struct {
	Certificate func() *tls.Certificate
	// Names are the common names of certificates of front proxies, and Authorities their CA certificates in PEM.
	Names       []string
	Authorities func() []byte
	// Headers are those of the front proxies in front of this server.
	Headers *auth.FrontProxy
	// Clients are the authorities of other clients in PEM.
	Clients func() []byte
}

// openProxy returns the identity that the options say.
func (a *Access) openProxy(l *assembly.List) (*ProxyIdentity, error) {
	own := func() []byte { return a.Keys().ProxyAuthority.CertPEM }
	p := &ProxyIdentity{Certificate: a.rotating.Proxy, Names: []string{pki.ProxyName}, Headers: &auth.FrontProxy{}}
	p.Clients = func() []byte { return a.Keys().Authority.CertPEM }
	if a.o.OnlyGiven {
		nobody := func() []byte { return nil }
		p.Certificate, p.Names, own, p.Clients = noCertificate, nil, nobody, nobody
	}
	if p.Authorities = own; a.o.ClientCAFile != "" {
		p.Clients = with(p.Clients, a.o.ClientCAFile)
	}
	if a.o.Proxy.given() {
		var err error
		if p.Certificate, err = follow("client certificate of the front proxy", a.o.Proxy, a.o.Logger, l); err != nil {
			return nil, err
		}
		if !a.o.OnlyGiven {
			p.Names = append(p.Names, p.Certificate().Leaf.Subject.CommonName)
		}
	}
	if a.o.ProxyCAFile != "" {
		p.Names, p.Headers = slices.Concat(p.Names, a.o.FrontProxy.Names), &a.o.FrontProxy
		p.Authorities = with(own, a.o.ProxyCAFile)
	}
	return p, nil
}

// with returns a bundle of certificates together with those in a file, as they are when it is called.
func with(own func() []byte, file string) func() []byte {
	return func() []byte {
		given, err := os.ReadFile(file)
		if err != nil {
			return own() // it is being replaced: what was published stays
		}
		return slices.Concat(own(), given)
	}
}

// frontProxy returns how front proxies are authenticated, or nil.
func (a *Access) frontProxy(l *assembly.List) (*auth.FrontProxy, error) {
	if a.o.ProxyCAFile == "" {
		return nil, nil
	}
	authorities, err := pki.WatchAuthorities(a.o.Logger, x509.NewCertPool, a.o.ProxyCAFile)
	if err != nil {
		return nil, fmt.Errorf("authorities of front proxies: %w", err)
	}
	l.Run("authorities of front proxies", authorities.Run)
	p := a.o.FrontProxy
	p.Clients = authorities.Get
	return &p, nil
}
