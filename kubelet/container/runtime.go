package container

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ErrUnsupported is the answer of a runtime to what it cannot do.
var ErrUnsupported = errors.New("the container runtime does not support this")

// ErrNotFound is the answer to a question about something that does not exist.
var ErrNotFound = errors.New("no such container")

// NetworkNotReady is the error of a runtime that has no network for a pod, which did not ask for its node's.
type NetworkNotReady struct{ Problem string }

func (e *NetworkNotReady) Error() string { return "network is not ready: " + e.Problem }

// Runtime runs sandboxes, which are what the containers of a pod share, and containers in them.
type Runtime interface {
	// Pods tells what there is of all pods.
	Pods(ctx context.Context) ([]Pod, error)
	// Pod tells what there is of one pod: nothing is no error.
	Pod(ctx context.Context, uid types.UID) (Pod, error)

	RunSandbox(ctx context.Context, spec *SandboxSpec) (id string, err error)
	StopSandbox(ctx context.Context, id string) error
	RemoveSandbox(ctx context.Context, id string) error

	Create(ctx context.Context, sandbox string, spec *Spec) (id string, err error)
	Start(ctx context.Context, id string) error
	Stop(ctx context.Context, id string, grace time.Duration) error
	Remove(ctx context.Context, id string) error
	// Resize gives a container that runs the resources that its definition has now.
	Resize(ctx context.Context, id string, pod *corev1.Pod, c *corev1.Container) error
	// Exec runs a command in a container and waits for it. If it takes longer than ctx allows the error is, or wraps,
	// context.DeadlineExceeded.
	Exec(ctx context.Context, id string, command []string) (Output, error)

	// Events calls changed for pods in which something changed, until ctx ends.
	Events(ctx context.Context, changed func(types.UID)) error
	// Version says what the runtime is.
	Version(ctx context.Context) (Version, error)
}

// Images keeps the images of containers.
type Images interface {
	// Find says how the runtime calls an image that it has. A missing image is "" and no error.
	Find(ctx context.Context, image string) (ref string, err error)
	Pull(ctx context.Context, image string, credentials []Credential) (ref string, err error)
}

// Prober is a Runtime that answers probes itself.
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

// Version says what a runtime is.
type Version struct {
	Name, Version string
}

// Output is what a command left.
type Output struct {
	Stdout, Stderr []byte
	ExitCode       int32
}
