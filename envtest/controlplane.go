package envtest

import (
	"errors"
	"net/url"

	"k8s.io/client-go/rest"
)

// mastersGroup is the group whose members may do everything.
const mastersGroup = "system:masters"

// ControlPlane is an API server and what it needs.
type ControlPlane struct {
	// APIServer is the API server. Nil is one with the defaults.
	APIServer *APIServer
	// Etcd is the store of the API server, which is part of it here.
	Etcd *Etcd
	// KubectlPath is where kubectl is. Empty looks for it as [KubeCtl] does.
	KubectlPath string

	legacy *AuthenticatedUser // whom the deprecated methods are
}

// Start starts the control plane.
func (c *ControlPlane) Start() error {
	if c.Etcd == nil {
		c.Etcd = &Etcd{}
	}
	server := c.GetAPIServer()
	if server.EtcdURL == nil {
		server.EtcdURL = c.Etcd.URL
	}
	if err := server.Start(); err != nil {
		return err
	}
	user, err := c.AddUser(User{Name: "default", Groups: []string{mastersGroup}}, nil)
	if err != nil {
		return errors.Join(err, server.Stop())
	}
	c.legacy = user
	return nil
}

// Stop ends the control plane, and leaves nothing of it.
func (c *ControlPlane) Stop() error {
	if c.APIServer == nil {
		return nil
	}
	return c.APIServer.Stop()
}

// GetAPIServer returns the API server, which it makes if there is none.
func (c *ControlPlane) GetAPIServer() *APIServer {
	if c.APIServer == nil {
		c.APIServer = &APIServer{}
	}
	return c.APIServer
}

// AddUser makes a user who may use the API, by the way of authentication that the API server was given.
func (c *ControlPlane) AddUser(user User, baseConfig *rest.Config) (*AuthenticatedUser, error) {
	server := c.GetAPIServer()
	if server.Authn == nil {
		return nil, errors.New("the API server has no way of authentication yet: it gets one when it starts")
	}
	if baseConfig == nil {
		baseConfig = &rest.Config{}
	}
	config, err := server.AddUser(user, baseConfig)
	if err != nil {
		return nil, err
	}
	return &AuthenticatedUser{config: config, plane: c}, nil
}

// APIURL is where the API is served.
//
// Deprecated: use AddUser, whose config has it.
func (c *ControlPlane) APIURL() *url.URL { return c.APIServer.URL }

// KubeCtl runs kubectl as an administrator, or is nil if that cannot be prepared.
//
// Deprecated: use AddUser and AuthenticatedUser.Kubectl.
func (c *ControlPlane) KubeCtl() *KubeCtl {
	k, err := c.legacy.Kubectl()
	if err != nil {
		return nil
	}
	return k
}

// RESTClientConfig reaches the API as an administrator.
//
// Deprecated: use AddUser and AuthenticatedUser.Config.
func (c *ControlPlane) RESTClientConfig() (*rest.Config, error) { return c.legacy.Config(), nil }
