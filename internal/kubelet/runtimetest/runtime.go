// Package runtimetest has a fake container runtime for tests of the kubelet and of what uses it.
//
// Its containers behave as the annotations of package hollow say, also in a synctest bubble. It is a complete
// kubelet.Runtime. What it reports about itself, its images and the usage of containers can be set at any time.
//
// Commands cannot be run in its containers, and nothing listens at a pod's address.
package runtimetest

import (
	"context"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/hollow"
)

// Runtime is a fake container runtime. New returns one.
type Runtime struct {
	*hollow.Runtime

	mu      sync.Mutex // guards what follows
	answers Answers
	images  []container.Image
}

// Answers are what the runtime reports. The zero value is a runtime that works and has nothing.
type Answers struct {
	// Problem is why the runtime does not work. Network is why it has no network for pods.
	Problem, Network string
	// Mount is the mount that holds the images.
	Mount string
	// Usages has the usage of containers, by their ID.
	Usages map[string]container.Usage
}

// New returns a Runtime that has the given images. Others can be pulled.
func New(images ...container.Image) *Runtime {
	return &Runtime{Runtime: hollow.NewRuntime(func(string) string { return "10.64.0.0/16" }), images: images}
}

// SetAnswers sets what the runtime reports from now on.
func (r *Runtime) SetAnswers(s Answers) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = s
}

func (r *Runtime) current() Answers {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answers
}

// RunSandbox makes a sandbox. It fails if the pod needs a network and there is none.
func (r *Runtime) RunSandbox(ctx context.Context, spec *container.SandboxSpec) (string, error) {
	if network := r.current().Network; network != "" && !spec.Pod.Spec.HostNetwork {
		return "", &container.NetworkNotReady{Problem: network}
	}
	return r.Runtime.RunSandbox(ctx, spec)
}

// Ready returns what was set.
func (r *Runtime) Ready(context.Context) (problem, network string) {
	s := r.current()
	return s.Problem, s.Network
}

// Compared returns the current time, because no event is ever missed.
func (r *Runtime) Compared() time.Time { return time.Now() }

// List returns all images.
func (r *Runtime) List(context.Context) ([]container.Image, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.images), nil
}

// RemoveImage removes an image.
func (r *Runtime) RemoveImage(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.images = slices.DeleteFunc(r.images, func(i container.Image) bool { return i.ID == id })
	return nil
}

// Usage returns the mount that was set, and the sum of the image sizes.
func (r *Runtime) Usage(context.Context) (mount string, bytes uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.images {
		bytes += uint64(i.Bytes)
	}
	return r.answers.Mount, bytes, nil
}

// User returns no user.
func (r *Runtime) User(context.Context, string) (uid *int64, name string, err error) {
	return nil, "", nil
}

// Usages returns what was set.
func (r *Runtime) Usages(context.Context) (map[string]container.Usage, error) {
	return maps.Clone(r.current().Usages), nil
}

// Stream returns ErrUnsupported.
func (r *Runtime) Stream(context.Context, string, []string, container.Streams) error {
	return container.ErrUnsupported
}

// Attach returns ErrUnsupported.
func (r *Runtime) Attach(context.Context, string, container.Streams) error {
	return container.ErrUnsupported
}

// Forward returns ErrUnsupported.
func (r *Runtime) Forward(context.Context, string, int32, io.ReadWriteCloser) error {
	return container.ErrUnsupported
}

// ReopenLog does nothing: there are no logs.
func (r *Runtime) ReopenLog(context.Context, string) error { return nil }

// Close does nothing.
func (r *Runtime) Close() error { return nil }
