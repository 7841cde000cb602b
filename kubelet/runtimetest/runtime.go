// Package runtimetest has a container runtime for tests of the kubelet and of what is built on it.
//
// What is guaranteed: its containers do what the annotations of package hollow say, at times that a synctest bubble can make
// pass; it is a whole kubelet.Runtime; and what it says of itself, of its images and of what containers use can be set at any time.
//
// What a caller may not assume: that a command can be run in a container, or that anything listens at a pod's address.
package runtimetest

import (
	"context"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/kubelet/container"
	"github.com/millrace/millrace/kubelet/hollow"
)

// Runtime pretends a container runtime. New makes one.
type Runtime struct {
	*hollow.Runtime

	mu     sync.Mutex // guards what follows
	said   Said
	images []container.Image
}

// Said is what a runtime says of itself. The zero value is one that works and has nothing.
type Said struct {
	// Problem is what keeps the runtime from working, Network what keeps it from giving pods a network.
	Problem, Network string
	// Mount is where images are kept.
	Mount string
	// Usages are what containers use, by their id.
	Usages map[string]container.Usage
}

// New makes a Runtime that has these images. Others can be pulled.
func New(images ...container.Image) *Runtime {
	return &Runtime{Runtime: hollow.NewRuntime(func(string) string { return "10.64.0.0/16" }), images: images}
}

// Say sets what the runtime says of itself from now on.
func (r *Runtime) Say(s Said) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = s
}

func (r *Runtime) now() Said {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said
}

// RunSandbox makes a sandbox, unless the pod needs a network and there is none.
func (r *Runtime) RunSandbox(ctx context.Context, spec *container.SandboxSpec) (string, error) {
	if network := r.now().Network; network != "" && !spec.Pod.Spec.HostNetwork {
		return "", &container.NetworkNotReady{Problem: network}
	}
	return r.Runtime.RunSandbox(ctx, spec)
}

// Ready says what was set.
func (r *Runtime) Ready(context.Context) (problem, network string) {
	s := r.now()
	return s.Problem, s.Network
}

// Compared is now: nothing is ever missed.
func (r *Runtime) Compared() time.Time { return time.Now() }

// List is the images that there are.
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

// Usage is the mount that was set, and the sum of the images.
func (r *Runtime) Usage(context.Context) (mount string, bytes uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.images {
		bytes += uint64(i.Bytes)
	}
	return r.said.Mount, bytes, nil
}

// User is nobody that is known.
func (r *Runtime) User(context.Context, string) (uid *int64, name string, err error) {
	return nil, "", nil
}

// Usages are what was set.
func (r *Runtime) Usages(context.Context) (map[string]container.Usage, error) {
	return maps.Clone(r.now().Usages), nil
}

// Stream refuses.
func (r *Runtime) Stream(context.Context, string, []string, container.Streams) error {
	return container.ErrUnsupported
}

// Attach refuses.
func (r *Runtime) Attach(context.Context, string, container.Streams) error {
	return container.ErrUnsupported
}

// Forward refuses.
func (r *Runtime) Forward(context.Context, string, int32, io.ReadWriteCloser) error {
	return container.ErrUnsupported
}

// ReopenLog does nothing: there are no logs.
func (r *Runtime) ReopenLog(context.Context, string) error { return nil }

// Close does nothing.
func (r *Runtime) Close() error { return nil }
