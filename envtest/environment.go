package envtest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

const (
	useExistingVariable = "USE_EXISTING_CLUSTER"
	startVariable       = "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT"
	stopVariable        = "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT"
	outputVariable      = "KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT"

	// StartTimeout and StopTimeout are what suites give their framework for starting and stopping, in seconds.
	StartTimeout = 60
	StopTimeout  = 60

	defaultTimeout = 20 * time.Second
)

// Environment is a control plane for tests, and what is installed in it. The zero value works.
type Environment struct {
	// ControlPlane is the API server. Before Start it may be configured; after it, it adds users.
	ControlPlane ControlPlane
	// Scheme tells which kinds are converted by webhooks: those whose Go types implement Hub and Convertible. Nil is
	// scheme.Scheme.
	Scheme *runtime.Scheme
	// Config reaches the API as its administrator. Start sets it; with an existing cluster it may be given.
	Config *rest.Config
	// KubeConfig is the same as a kubeconfig file. Start sets it if it is empty.
	KubeConfig []byte
	// CRDInstallOptions say which definitions of custom resources are installed.
	CRDInstallOptions CRDInstallOptions
	// WebhookInstallOptions say which webhooks are installed, and where they are served.
	WebhookInstallOptions WebhookInstallOptions
	// ErrorIfCRDPathMissing makes a path without a file an error.
	ErrorIfCRDPathMissing bool
	// CRDs are installed besides those of CRDInstallOptions. Start sets it to all that were installed.
	CRDs []*apiextensionsv1.CustomResourceDefinition
	// CRDDirectoryPaths are read besides those of CRDInstallOptions.
	CRDDirectoryPaths []string

	// Loops are the control loops that run beside the API server: none by default.
	Loops Loops
	// Virtual opens no port, so that the environment can live inside a bubble of testing/synctest, where time is
	// virtual. Config then reaches the API from this process alone; KubeConfig stays empty, and webhooks cannot be
	// served.
	Virtual bool

	// These say where binaries are to be had. There are none, and they mean nothing.
	DownloadBinaryAssets         bool
	DownloadBinaryAssetsVersion  string
	DownloadBinaryAssetsIndexURL string
	BinaryAssetsDirectory        string

	// UseExistingCluster uses a cluster that runs already, instead of starting one. Nil asks the variable
	// USE_EXISTING_CLUSTER.
	UseExistingCluster *bool
	// ControlPlaneStartTimeout bounds the start: the variable KUBEBUILDER_CONTROLPLANE_START_TIMEOUT, or 20 seconds, by
	// default.
	ControlPlaneStartTimeout time.Duration
	// ControlPlaneStopTimeout bounds the end in the same way.
	ControlPlaneStopTimeout time.Duration
	// AttachControlPlaneOutput writes what the API server logs to the standard error.
	AttachControlPlaneOutput bool
}

// Start starts the control plane and installs definitions and webhooks. It returns how to reach the API as its
// administrator. After an error nothing is left running.
func (te *Environment) Start() (*rest.Config, error) {
	if err := te.connect(); err != nil {
		return nil, err
	}
	if err := te.install(); err != nil {
		if !te.usesExisting() {
			err = errors.Join(err, te.ControlPlane.Stop())
		}
		return nil, errors.Join(err, te.WebhookInstallOptions.Cleanup())
	}
	return te.Config, nil
}

// connect starts the control plane, or finds the one that runs already.
func (te *Environment) connect() (err error) {
	if te.Scheme == nil {
		te.Scheme = scheme.Scheme
	}
	switch {
	case te.usesExisting() && te.Config == nil:
		if te.Config, err = existingConfig(); err != nil {
			return fmt.Errorf("find the existing cluster: %w", err)
		}
	case !te.usesExisting():
		if te.Config, err = te.startControlPlane(); err != nil {
			return fmt.Errorf("unable to start control plane itself: %w", err)
		}
	}
	if len(te.KubeConfig) == 0 && !te.Virtual {
		te.KubeConfig, err = kubeconfig(te.Config)
	}
	return err
}

func (te *Environment) startControlPlane() (*rest.Config, error) {
	if err := te.setTimeouts(); err != nil {
		return nil, err
	}
	server := te.ControlPlane.GetAPIServer()
	server.StartTimeout, server.StopTimeout = te.ControlPlaneStartTimeout, te.ControlPlaneStopTimeout
	if te.AttachControlPlaneOutput = te.AttachControlPlaneOutput || os.Getenv(outputVariable) == "true"; te.AttachControlPlaneOutput && server.Err == nil {
		server.Err = os.Stderr
	}
	server.loops, server.virtual = te.Loops, te.Virtual
	if err := te.ControlPlane.Start(); err != nil {
		return nil, err
	}
	admin, err := te.ControlPlane.AddUser(User{Name: "admin", Groups: []string{mastersGroup}}, &rest.Config{QPS: 1000, Burst: 2000})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("unable to provision admin user: %w", err), te.ControlPlane.Stop())
	}
	return admin.Config(), nil
}

// install installs definitions and webhooks.
func (te *Environment) install() error {
	if te.Virtual && te.WebhookInstallOptions.any() {
		return errors.New("webhooks cannot be virtual: they are served at a port of this machine, and a bubble of testing/synctest has no ports; leave out Virtual, or the webhooks")
	}
	if !te.Virtual {
		if err := te.WebhookInstallOptions.PrepWithoutInstalling(); err != nil {
			return err
		}
	}
	o := &te.CRDInstallOptions
	if o.Scheme == nil {
		o.Scheme = te.Scheme
	}
	o.CRDs = mergeCRDs(o.CRDs, te.CRDs)
	o.Paths = mergePaths(o.Paths, te.CRDDirectoryPaths)
	o.ErrorIfPathMissing = te.ErrorIfCRDPathMissing
	o.WebhookOptions = te.WebhookInstallOptions
	crds, err := InstallCRDs(te.Config, *o)
	if err != nil {
		return fmt.Errorf("unable to install CRDs onto control plane: %w", err)
	}
	te.CRDs = crds
	if te.Virtual {
		return nil
	}
	if err := te.WebhookInstallOptions.Install(te.Config); err != nil {
		return fmt.Errorf("unable to install webhooks onto control plane: %w", err)
	}
	return nil
}

// Stop ends the control plane. In an existing cluster it takes back the definitions of CRDInstallOptions if
// CleanUpAfterUse says so.
func (te *Environment) Stop() error {
	if te.CRDInstallOptions.CleanUpAfterUse {
		if err := UninstallCRDs(te.Config, te.CRDInstallOptions); err != nil {
			return err
		}
	}
	if err := te.WebhookInstallOptions.Cleanup(); err != nil {
		return err
	}
	if te.usesExisting() {
		return nil
	}
	return te.ControlPlane.Stop()
}

// AddUser makes a user who may use the API. A config that is not nil is what the user's config starts from.
func (te *Environment) AddUser(user User, baseConfig *rest.Config) (*AuthenticatedUser, error) {
	return te.ControlPlane.AddUser(user, baseConfig)
}

func (te *Environment) usesExisting() bool {
	if te.UseExistingCluster != nil {
		return *te.UseExistingCluster
	}
	return strings.EqualFold(os.Getenv(useExistingVariable), "true")
}

func (te *Environment) setTimeouts() (err error) {
	if te.ControlPlaneStartTimeout, err = timeout(te.ControlPlaneStartTimeout, startVariable); err != nil {
		return err
	}
	te.ControlPlaneStopTimeout, err = timeout(te.ControlPlaneStopTimeout, stopVariable)
	return err
}

func timeout(given time.Duration, variable string) (time.Duration, error) {
	text := os.Getenv(variable)
	switch {
	case given != 0:
		return given, nil
	case text == "":
		return defaultTimeout, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("the variable %s: %w", variable, err)
	}
	return d, nil
}
