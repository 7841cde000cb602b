package container

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ErrUnsupported is returned for operations that the runtime does not have.
var ErrUnsupported = errors.New("the container runtime does not support this")

// ErrNotFound is returned for a container that does not exist.
var ErrNotFound = errors.New("no such container")

// NetworkNotReady is returned when a pod needs a network of its own and the runtime has none.
type NetworkNotReady struct{ Problem string }

func (e *NetworkNotReady) Error() string { return "network is not ready: " + e.Problem }

// Runtime runs sandboxes and the containers in them.
type Runtime interface {
	// Pods returns all pods that the runtime has.
	Pods(ctx context.Context) ([]Pod, error)
	// Pod returns what the runtime has of one pod. A pod that it does not have is empty, without an error.
	Pod(ctx context.Context, uid types.UID) (Pod, error)

	RunSandbox(ctx context.Context, spec *SandboxSpec) (id string, err error)
	StopSandbox(ctx context.Context, id string) error
	RemoveSandbox(ctx context.Context, id string) error

	Create(ctx context.Context, sandbox string, spec *Spec) (id string, err error)
	Start(ctx context.Context, id string) error
	Stop(ctx context.Context, id string, grace time.Duration) error
	Remove(ctx context.Context, id string) error
	// Resize applies the resources of c to a running container.
	Resize(ctx context.Context, id string, pod *corev1.Pod, c *corev1.Container) error
	// Exec runs a command in a container and waits for its end. If ctx ends first, the error is or wraps
	// context.DeadlineExceeded.
	Exec(ctx context.Context, id string, command []string) (Output, error)

	// Events calls changed for each pod that has changed, until ctx ends.
	Events(ctx context.Context, changed func(types.UID)) error
	// Version returns the runtime's name and version.
	Version(ctx context.Context) (Version, error)
}

// Images finds and pulls images.
type Images interface {
	// Find returns the runtime's ID of an image. For a missing image it returns "" without an error.
	Find(ctx context.Context, image string) (ref string, err error)
	Pull(ctx context.Context, image string, credentials []Credential) (ref string, err error)
}

// Prober is a Runtime that answers probes itself. The message says why a probe has failed; that of one that has
// succeeded is a warning.
type Prober interface {
	Probe(ctx context.Context, id string, kind ProbeKind, probe *corev1.Probe) (ok bool, message string, err error)
}

// ProbeKind says what a probe is for.
type ProbeKind string

// The kinds of probes.
const (
	Liveness  ProbeKind = "Liveness"
	Readiness ProbeKind = "Readiness"
	Startup   ProbeKind = "Startup"
)

// Credential gives access to a registry of images.
type Credential struct {
	Username, Password, Auth, ServerAddress, IdentityToken, RegistryToken string
}

// Version is the name and version of a runtime, and what it can.
type Version struct {
	Name, Version string
	// Handlers are the names that runtime classes may give, ordered by name. The empty one is the default.
	Handlers []corev1.NodeRuntimeHandler
	Features corev1.NodeFeatures
}

// String is how the node's status names a runtime.
func (v Version) String() string { return v.Name + "://" + v.Version }

// Output is the output of a command and its exit code.
type Output struct {
	Stdout, Stderr []byte
	ExitCode       int32
}
