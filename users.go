package millrace

import (
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/server/auth"
)

// User returns a client configuration for a user with groups, to which the cluster's roles apply. It has a client certificate
// that is valid for a year and is not renewed. Without a port, in-process requests carry the user directly.
func (c *Cluster) User(name string, groups ...string) (*rest.Config, error) {
	if name == "" {
		return nil, fmt.Errorf("a user needs a name")
	}
	if c.options.Listen == noPort {
		config := c.InProcess()
		config.Transport = from{auth.User{Name: name, Groups: append(groups[:len(groups):len(groups)], auth.Authenticated)}, config.Transport}
		return config, nil
	}
	keys := c.certificates.keys.Keys()
	pair, err := keys.Client(name, groups, time.Now())
	if err != nil {
		return nil, fmt.Errorf("a certificate for %s: %w", name, err)
	}
	config := c.Config()
	config.CertData, config.KeyData = pair.CertPEM, pair.KeyPEM
	return config, nil
}

// from sends in-process requests as a user.
type from struct {
	user auth.User
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f from) RoundTrip(r *http.Request) (*http.Response, error) {
	return f.next.RoundTrip(r.WithContext(auth.WithUser(r.Context(), f.user)))
}
