package millrace

import (
	"crypto/tls"
	"os"
	"slices"

	"github.com/millrace/millrace/server/auth"
	"github.com/millrace/millrace/server/pki"
)

// ProxyOptions have the client certificate with which this server, as a front proxy, calls the servers of aggregated API groups. The
// files are read again when they change. By default the cluster's own authority of front proxies signs one. These servers learn whom
// to trust from a config map, which also gets the authorities in AuthenticationOptions.ProxyCAFile and ServingOptions.ClientCAFile.
type ProxyOptions struct {
	CertFile, KeyFile string
}

// proxyIdentity is how this server identifies itself as a front proxy, and what it tells others about front proxies.
type proxyIdentity struct {
	certificate func() *tls.Certificate
	// names are the common names of certificates of front proxies, and authorities their CA certificates in PEM.
	names       []string
	authorities func() []byte
	// headers are those of the front proxies in front of this server.
	headers *auth.FrontProxy
}

// openProxy returns the identity that the options say.
func (c *Cluster) openProxy() (*proxyIdentity, error) {
	keys, o, trusted := c.certificates.keys, c.options.Serving.Proxy, &c.options.Authentication
	own := func() []byte { return keys.Keys().ProxyAuthority.CertPEM }
	p := &proxyIdentity{certificate: keys.Proxy, names: []string{pki.ProxyName}, authorities: own, headers: &auth.FrontProxy{}}
	if o.CertFile != "" || o.KeyFile != "" {
		var err error
		if p.certificate, err = c.followPair("client certificate of the front proxy", o.CertFile, o.KeyFile); err != nil {
			return nil, err
		}
		p.names = append(p.names, p.certificate().Leaf.Subject.CommonName)
	}
	if trusted.ProxyCAFile != "" {
		p.names, p.headers = slices.Concat(p.names, trusted.Proxy.Names), &trusted.Proxy
		p.authorities = with(own, trusted.ProxyCAFile)
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
