package envtest

import (
	"errors"
	"fmt"
	"net/url"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace"
)

// User is a user to make.
type User struct {
	Name   string
	Groups []string
}

// Authn is a way of authentication.
type Authn interface {
	// Configure sets flags of the API server before it starts. workDir is its directory of certificates, empty if there
	// is none.
	Configure(workDir string, args *Arguments) error
	// Start is called before the API server starts.
	Start() error
	// AddUser makes a user: a copy of a config, by which the API server knows the user.
	AddUser(user User, baseCfg *rest.Config) (*rest.Config, error)
	// Stop is called after the API server has ended.
	Stop() error
}

// certificates make users who have client certificates of the cluster's own authority.
type certificates struct {
	cluster *millrace.Cluster
}

func (*certificates) Configure(string, *Arguments) error { return nil }
func (*certificates) Start() error                       { return nil }

// Stop forgets the cluster.
func (c *certificates) Stop() error {
	c.cluster = nil
	return nil
}

// AddUser implements Authn.
func (c *certificates) AddUser(user User, base *rest.Config) (*rest.Config, error) {
	if c.cluster == nil {
		return nil, errors.New("users can be added once the API server has started")
	}
	own, err := c.cluster.User(user.Name, user.Groups...)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(base)
	config.Host, config.Transport = own.Host, own.Transport
	config.CAData, config.CertData, config.KeyData = own.CAData, own.CertData, own.KeyData
	return config, nil
}

// AuthenticatedUser is a user who may use the API.
type AuthenticatedUser struct {
	config  *rest.Config
	plane   *ControlPlane
	kubectl *KubeCtl
}

// Config reaches the API as this user. It panics before the API server has started.
func (u *AuthenticatedUser) Config() *rest.Config {
	server := u.plane.APIServer
	if server == nil || server.cluster == nil {
		panic("envtest: the API server has not been started yet")
	}
	if u.config.Host == "" {
		u.config.Host, u.config.CAData = server.cluster.URL(), server.CA
	}
	return u.config
}

// KubeConfig is a kubeconfig file of this user. It panics before the API server has started.
func (u AuthenticatedUser) KubeConfig() ([]byte, error) { return kubeconfig(u.Config()) }

// Kubectl runs kubectl as this user. It panics before the API server has started.
func (u *AuthenticatedUser) Kubectl() (*KubeCtl, error) {
	if u.kubectl != nil {
		return u.kubectl, nil
	}
	content, err := u.KubeConfig()
	if err != nil {
		return nil, err
	}
	directory, err := u.plane.APIServer.directory()
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(directory, "*.kubeconfig") // which only its owner can read
	if err != nil {
		return nil, err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	u.kubectl = &KubeCtl{Path: u.plane.KubectlPath, Opts: []string{"--kubeconfig=" + file.Name()}}
	return u.kubectl, nil
}

// kubeconfig writes a config as a kubeconfig file.
func kubeconfig(config *rest.Config) ([]byte, error) {
	if config.Transport != nil {
		return nil, errors.New("an API without a port is reached from its own process alone: there is no kubeconfig for it")
	}
	const name = "envtest"
	at, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("the host of the configuration: %w", err)
	}
	scheme := "http"
	if rest.IsConfigTransportTLS(*config) {
		scheme = "https"
	}
	host := at.Host
	if host == "" {
		host = config.Host
	}
	file := clientcmdapi.NewConfig()
	server := url.URL{Scheme: scheme, Host: host, Path: config.APIPath}
	file.Clusters[name] = &clientcmdapi.Cluster{Server: server.String(), CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
		Token: config.BearerToken, Username: config.Username, Password: config.Password,
	}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	return clientcmd.Write(*file)
}

// existingConfig is how the cluster is reached that runs already: by the variable KUBECONFIG, from inside a pod, or by
// the file in the home directory, in this order.
func existingConfig() (*rest.Config, error) {
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		if config, err := rest.InClusterConfig(); err == nil {
			return config, nil
		}
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
}
