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
func (f *ControlPlane) Start() error {
	if f.Etcd == nil {
		f.Etcd = &Etcd{}
	}
	server := f.GetAPIServer()
	if server.EtcdURL == nil {
		server.EtcdURL = f.Etcd.URL
	}
	if err := server.Start(); err != nil {
		return err
	}
	user, err := f.AddUser(User{Name: "default", Groups: []string{mastersGroup}}, nil)
	if err != nil {
		return errors.Join(err, server.Stop())
	}
	f.legacy = user
	return nil
}

// Stop ends the control plane, and leaves nothing of it.
func (f *ControlPlane) Stop() error {
	if f.APIServer == nil {
		return nil
	}
	return f.APIServer.Stop()
}

// GetAPIServer returns the API server, which it makes if there is none.
func (f *ControlPlane) GetAPIServer() *APIServer {
	if f.APIServer == nil {
		f.APIServer = &APIServer{}
	}
	return f.APIServer
}

// AddUser makes a user who may use the API, by the way of authentication that the API server was given.
func (f *ControlPlane) AddUser(user User, baseConfig *rest.Config) (*AuthenticatedUser, error) {
	server := f.GetAPIServer()
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
	return &AuthenticatedUser{config: config, plane: f}, nil
}

// APIURL is where the API is served.
//
// Deprecated: use AddUser, whose config has it.
func (f *ControlPlane) APIURL() *url.URL { return f.APIServer.URL }

// KubeCtl runs kubectl as an administrator, or is nil if that cannot be prepared.
//
// Deprecated: use AddUser and AuthenticatedUser.Kubectl.
func (f *ControlPlane) KubeCtl() *KubeCtl {
	k, err := f.legacy.Kubectl()
	if err != nil {
		return nil
	}
	return k
}

// RESTClientConfig reaches the API as an administrator.
//
// Deprecated: use AddUser and AuthenticatedUser.Config.
func (f *ControlPlane) RESTClientConfig() (*rest.Config, error) { return f.legacy.Config(), nil }
