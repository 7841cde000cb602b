// Package millrace runs a Kubernetes control plane inside the calling process: a store, an API server with a watch
// cache, controllers, a scheduler and any number of hollow nodes.
//
//	cluster, err := millrace.Start(ctx, millrace.Options{})
//	if err != nil { … }
//	defer cluster.Close()
//	clientset, err := kubernetes.NewForConfig(cluster.Config())
//
// Guarantees: when Start returns without an error, the API answers and the default namespaces and the Service
// "kubernetes" exist. When Close returns, no goroutine, file lock or port of the cluster is left. Clusters share
// nothing, so many can run side by side, and none changes a setting of the process. The zero Options keep everything in
// memory and listen on a free port of the loopback interface.
package millrace

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/assembly/access"
	"github.com/millrace/millrace/internal/assembly/address"
	"github.com/millrace/millrace/internal/assembly/identity"
	"github.com/millrace/millrace/internal/assembly/loops"
	"github.com/millrace/millrace/internal/assembly/storage"
	"github.com/millrace/millrace/internal/assembly/web"
	"github.com/millrace/millrace/internal/durable"
	"github.com/millrace/millrace/internal/planes"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/pki"
)

// Cluster is a running control plane.
type Cluster struct {
	running *assembly.List
	address *address.Address
	storage *storage.Storage
	access  *access.Access
	web     *web.Web
	loops   *loops.Loops
	planes  *planes.Planes // nil if there are none
}

// Start starts a cluster and returns when it is ready. ctx only limits the start; Close stops the cluster.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	o.setDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	return start(ctx, &o)
}

// Config returns the administrator's client configuration. Without a port or keys of the cluster's own it is the one of
// InProcess.
func (c *Cluster) Config() *rest.Config {
	if c.address.Alone() || c.access.OnlyGiven() {
		return c.InProcess()
	}
	return c.config(c.access.Keys().Admin)
}

// config returns a client configuration with a client certificate.
func (c *Cluster) config(pair pki.Pair) *rest.Config {
	return &rest.Config{
		Host:            c.URL(),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.access.Authorities(), CertData: pair.CertPEM, KeyData: pair.KeyPEM},
		QPS:             -1,
	}
}

// InProcess returns a client configuration that calls the API without a connection: the same API and the same bytes,
// without the cost of a network. It can be used until the cluster is closed.
func (c *Cluster) InProcess() *rest.Config { return c.address.Config() }

// User returns a client configuration for a user with groups, to which the cluster's roles apply. It has a client
// certificate that is valid for a year and is not renewed. Without a port or keys of the cluster's own, in-process
// requests carry the user directly.
func (c *Cluster) User(name string, groups ...string) (*rest.Config, error) {
	if name == "" {
		return nil, fmt.Errorf("a user needs a name")
	}
	if c.address.Alone() || c.access.OnlyGiven() {
		config, user := c.InProcess(), identity.Component(name)
		user.Groups = append(append([]string(nil), groups...), user.Groups...)
		config.Transport = identity.From{User: user, Next: config.Transport}
		return config, nil
	}
	pair, err := c.access.Keys().Client(name, groups, time.Now())
	if err != nil {
		return nil, fmt.Errorf("a certificate for %s: %w", name, err)
	}
	return c.config(pair), nil
}

// PageLink returns a link to the page for browsers, which can be used once, within ten minutes. The page only reads, with
// the permissions of the user. Without a name that is the administrator.
func (c *Cluster) PageLink(user string, groups ...string) (string, error) {
	u := auth.User{Name: user, Groups: auth.WithAuthenticated(groups)}
	if user == "" {
		u = auth.User{Name: "admin", Groups: []string{auth.Masters, auth.Authenticated}}
	}
	return c.web.PageLink(u)
}

// URL returns the URL of the API, or "" if there is no port. For a server that listens on all addresses it has the
// loopback address.
func (c *Cluster) URL() string { return c.address.URL() }

// Kubeconfig returns a kubeconfig for the cluster's administrator. Its certificate is valid for a year. After eleven
// months a new one is made.
func (c *Cluster) Kubeconfig() []byte {
	return encodeKubeconfig(c.URL(), c.access.Authorities(), "admin", c.access.Keys().Admin)
}

// WriteKubeconfig writes the kubeconfig to a file that only its owner can read.
func (c *Cluster) WriteKubeconfig(path string) error {
	if err := durable.WriteFile(path, c.Kubeconfig(), 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// UserKubeconfig returns a kubeconfig for a user with groups. Its certificate is signed by the CA in a directory of
// keys, and valid for as long as life says.
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

// Failed receives an error if a part that must run has ended by itself.
func (c *Cluster) Failed() <-chan error { return c.running.Failed() }

// Close stops the cluster and waits until nothing of it is running.
func (c *Cluster) Close() error { return c.running.Close() }

// Version returns the Kubernetes version of the API.
func Version() version.Info {
	return version.Info{
		Major: "1", Minor: "37", GitVersion: "v1.37.0+millrace", GitTreeState: "clean", GoVersion: runtime.Version(),
		Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
		EmulationMajor: "1", EmulationMinor: "37", MinCompatibilityMajor: "1", MinCompatibilityMinor: "36",
	}
}
