package millrace

import (
	"crypto/x509"
	"fmt"

	"github.com/millrace/millrace/server/auth"
	"github.com/millrace/millrace/server/auth/webhook"
	"github.com/millrace/millrace/server/pki"
)

// AuthenticationOptions say who is believed, beyond certificates and tokens of the cluster's own.
type AuthenticationOptions struct {
	// NoAnonymous refuses requests without credentials.
	NoAnonymous bool
	// TokenWebhook is asked for tokens that nobody else knows.
	TokenWebhook webhook.TokenOptions
	// ProxyCAFile holds the authorities of front proxies, and Proxy the names of their certificates and headers.
	ProxyCAFile string
	Proxy       auth.FrontProxy
}

// frontProxy is how front proxies are believed, or nil.
func (c *Cluster) frontProxy() (*auth.FrontProxy, error) {
	o := c.options.Authentication
	if o.ProxyCAFile == "" {
		return nil, nil
	}
	authorities, err := pki.WatchAuthorities(c.options.Logger, x509.NewCertPool, o.ProxyCAFile)
	if err != nil {
		return nil, fmt.Errorf("authorities of front proxies: %w", err)
	}
	c.run("authorities of front proxies", authorities.Run)
	p := o.Proxy
	p.Clients = authorities.Get
	return &p, nil
}
