package millrace

import (
	"crypto/tls"
	"os"
	"slices"

	"github.com/millrace/millrace/server/pki"
)

// ProxyOptions have the client certificate with which this server, as a front proxy, calls the servers of aggregated API groups. The
// files are read again when they change. By default the cluster's own authority of front proxies signs one. These servers learn whom
// to trust from a config map, which also gets the authorities in AuthenticationOptions.ProxyCAFile.
type ProxyOptions struct {
	CertFile, KeyFile string
}

// proxyIdentity is how this server identifies itself as a front proxy.
type proxyIdentity struct {
	certificate func() *tls.Certificate
	// names are the common names of certificates of front proxies, and authorities their CA certificates in PEM.
	names       []string
	authorities func() []byte
}

// openProxy returns the identity that the options say.
func (c *Cluster) openProxy() (*proxyIdentity, error) {
	keys, o := c.certificates.keys, c.options.Serving.Proxy
	own := func() []byte { return keys.Keys().ProxyAuthority.CertPEM }
	p := &proxyIdentity{certificate: keys.Proxy, names: []string{pki.ProxyName}, authorities: own}
	if o.CertFile == "" && o.KeyFile == "" {
		return p, nil
	}
	var err error
	if p.certificate, err = c.followPair("client certificate of the front proxy", o.CertFile, o.KeyFile); err != nil {
		return nil, err
	}
	trusted := c.options.Authentication
	p.names = slices.Concat(p.names, []string{p.certificate().Leaf.Subject.CommonName}, trusted.Proxy.Names)
	p.authorities = func() []byte {
		given, err := os.ReadFile(trusted.ProxyCAFile)
		if err != nil {
			return own() // there is no file, or it is being replaced: what was published stays
		}
		return slices.Concat(own(), given)
	}
	return p, nil
}
