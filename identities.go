package millrace

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/internal/controllers"
	"github.com/millrace/millrace/internal/durable"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/pki"
	"github.com/millrace/millrace/loop"
)

// The cluster's components use Kubernetes' user names, and have the roles of these names. Only the administrator is in
// system:masters.
var (
	controllerUser = component("system:kube-controller-manager")
	schedulerUser  = component("system:kube-scheduler")
	proxyUser      = component("system:kube-proxy")
)

func component(name string) auth.User {
	return auth.User{Name: name, Groups: []string{auth.Authenticated}}
}

// as runs a component with its own user.
func as(u auth.User, r loop.Runner) loop.Runner {
	return loop.Func(func(ctx context.Context) error { return r.Run(auth.WithUser(ctx, u)) })
}

// asAccount returns the context of a loop, which uses its own service account in kube-system, if it has one.
func asAccount(ctx context.Context, name string) context.Context {
	if controllers.Account(name) == "" {
		return ctx
	}
	return auth.WithUser(ctx, auth.User{
		Name: auth.AccountName(systemNamespace, controllers.Account(name)), Groups: append(auth.AccountGroups(systemNamespace), auth.Authenticated),
	})
}

// asNode returns the context for requests of a node's kubelet.
func asNode(ctx context.Context, node string) context.Context {
	return auth.WithUser(ctx, auth.User{Name: auth.NodePrefix + node, Groups: []string{auth.Nodes, auth.Authenticated}})
}

// otherwise sends in-process requests without a user as the given user, not as the administrator.
type otherwise struct {
	user auth.User
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (o otherwise) RoundTrip(r *http.Request) (*http.Response, error) {
	if auth.UserFrom(r.Context()).Name != "" {
		return o.next.RoundTrip(r)
	}
	return o.next.RoundTrip(r.WithContext(auth.WithUser(r.Context(), o.user)))
}

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

// Kubeconfig returns a kubeconfig for the cluster's administrator. Its certificate is valid for a year. After eleven months a new
// one is made.
func (c *Cluster) Kubeconfig() []byte {
	return encodeKubeconfig(c.URL(), c.authorities(), "admin", c.certificates.keys.Keys().Admin)
}

// UserKubeconfig returns a kubeconfig for a user with groups. Its certificate is signed by the CA in a directory of keys.
func UserKubeconfig(keys, server, user string, groups []string, life time.Duration) ([]byte, error) {
	authority, err := pki.ReadAuthority(keys)
	if err != nil {
		return nil, err
	}
	pair, err := pki.IssueClient(&authority, user, groups, time.Now(), life)
	if err != nil {
		return nil, fmt.Errorf("a certificate for %s: %w", user, err)
	}
	return encodeKubeconfig(server, authority.CertPEM, user, pair), nil
}

func encodeKubeconfig(server string, authorities []byte, user string, pair pki.Pair) []byte {
	config := clientcmdapi.NewConfig()
	config.Clusters["millrace"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authorities}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.CertPEM, ClientKeyData: pair.KeyPEM}
	config.Contexts["millrace"] = &clientcmdapi.Context{Cluster: "millrace", AuthInfo: user}
	config.CurrentContext = "millrace"
	b, err := clientcmd.Write(*config)
	if err != nil {
		panic(fmt.Sprintf("millrace: a kubeconfig cannot be encoded: %v", err))
	}
	return b
}

// WriteKubeconfig writes the kubeconfig to a file that only its owner can read.
func (c *Cluster) WriteKubeconfig(path string) error {
	if err := durable.WriteFile(path, c.Kubeconfig(), 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
