package millrace

import (
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/server/auth"
)

// User is how client-go reaches the cluster as a user of some groups, to whom the roles of the cluster apply. The user has a client
// certificate, which is good for a year and which nobody renews; without a port, requests come from the user by themselves.
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

// from sends requests from inside in the name of a user.
type from struct {
	user auth.User
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f from) RoundTrip(r *http.Request) (*http.Response, error) {
	return f.next.RoundTrip(r.WithContext(auth.WithUser(r.Context(), f.user)))
}
