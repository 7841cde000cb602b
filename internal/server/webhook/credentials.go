package webhook

import (
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Credentials are with which servers are called. Each user of a kubeconfig is for the server of its name.
type Credentials struct {
	users    map[string]*user
	fallback *user // may be nil
}

// user is one of a kubeconfig.
type user struct{ config *rest.Config }

// anyServer is the name of the user for all servers that have none of their own.
const anyServer = "*"

// ReadCredentials reads a kubeconfig. Its users are named by servers: NAME.NAMESPACE.svc for a service and otherwise
// the host of the URL, with the port unless that is 443; "*." at the beginning stands for any first parts of the name,
// and "*" alone for all others. If there is no user "*", that of the current context takes its place. Files that users
// name are read when they are used.
func ReadCredentials(path string) (*Credentials, error) {
	config, err := (&clientcmd.ClientConfigLoadingRules{ExplicitPath: path}).Load()
	if err != nil {
		return nil, err
	}
	c := &Credentials{users: map[string]*user{}}
	for name, info := range config.AuthInfos {
		if c.users[name], err = newUser(info); err != nil {
			return nil, fmt.Errorf("%s: user %q: %w", path, name, err)
		}
	}
	c.fallback = c.users[anyServer]
	if current := config.Contexts[config.CurrentContext]; c.fallback == nil && current != nil {
		c.fallback = c.users[current.AuthInfo]
	}
	return c, nil
}

func newUser(info *api.AuthInfo) (*user, error) {
	const name = "webhook"
	config, err := clientcmd.NewDefaultClientConfig(api.Config{
		Clusters:  map[string]*api.Cluster{name: {Server: "https://" + name}}, // the credentials are used for other servers
		AuthInfos: map[string]*api.AuthInfo{name: info}, Contexts: map[string]*api.Context{name: {Cluster: name, AuthInfo: name}}, CurrentContext: name,
	}, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	u := &user{config}
	_, err = u.certificate(nil)
	return u, err
}

// of finds the user for a server: by its whole name, by the end of it, and last of all the one for all servers.
func (c *Credentials) of(server string) *user {
	if u := c.named(server); u != nil {
		return u
	}
	if host, port, err := net.SplitHostPort(server); err == nil && port == strconv.Itoa(defaultPort) {
		if u := c.named(host); u != nil {
			return u
		}
	}
	return c.fallback
}

func (c *Credentials) named(server string) *user {
	if u := c.users[server]; u != nil {
		return u
	}
	for _, rest, more := strings.Cut(server, "."); more; _, rest, more = strings.Cut(rest, ".") {
		if u := c.users["*."+rest]; u != nil {
			return u
		}
	}
	return nil
}

// certificate is what the user shows to a server: nothing if it has none.
func (u *user) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	t := &u.config.TLSClientConfig
	var one tls.Certificate
	var err error
	switch {
	case len(t.CertData) > 0 && len(t.KeyData) > 0:
		one, err = tls.X509KeyPair(t.CertData, t.KeyData)
	case t.CertFile != "" && t.KeyFile != "":
		one, err = tls.LoadX509KeyPair(t.CertFile, t.KeyFile) // it may have been replaced
	}
	return &one, err
}
