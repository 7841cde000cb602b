package hollow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// Runtime is a runtime with fake containers. It implements container.Runtime, container.Images and container.Prober.
type Runtime struct {
	addresses *addresses

	mu      sync.Mutex // guards what follows
	pods    map[types.UID]*pod
	owners  map[string]types.UID // sandbox or container ID → pod UID
	changed func(types.UID)
	count   uint64
}

type pod struct {
	container.Pod
	node string
	runs []*run // there are few: a map would need more memory
}

// run returns a container's run, or nil.
func (p *pod) run(id string) *run {
	for _, r := range p.runs {
		if r.id == id {
			return r
		}
	}
	return nil
}

func (p *pod) forget(id string) {
	p.runs = slices.DeleteFunc(p.runs, func(r *run) bool { return r.id == id })
}

// run executes one container's script.
type run struct {
	id     string
	script script
	timer  *time.Timer
	ended  chan struct{} // closed when the run has ended; made when somebody waits for it
}

// NewRuntime returns a Runtime. ranges returns the address range of a node's pods.
func NewRuntime(ranges func(node string) string) *Runtime {
	return &Runtime{addresses: newAddresses(ranges), pods: map[types.UID]*pod{}, owners: map[string]types.UID{}}
}

var (
	_ container.Runtime = (*Runtime)(nil)
	_ container.Images  = (*Runtime)(nil)
	_ container.Prober  = (*Runtime)(nil)
)

// Version says what this is.
func (r *Runtime) Version(context.Context) (container.Version, error) {
	return container.Version{Name: "hollow", Version: "1.0.0"}, nil
}

// Pods returns all pods.
func (r *Runtime) Pods(context.Context) ([]container.Pod, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]container.Pod, 0, len(r.pods))
	for _, p := range r.pods {
		all = append(all, p.copy())
	}
	return all, nil
}

// Pod returns one pod.
func (r *Runtime) Pod(_ context.Context, uid types.UID) (container.Pod, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.pods[uid]; p != nil {
		return p.copy(), nil
	}
	return container.Pod{UID: uid}, nil
}

func (p *pod) copy() container.Pod {
	c := p.Pod
	c.Sandboxes, c.Containers = slices.Clone(p.Sandboxes), slices.Clone(p.Containers)
	return c
}

// identityLocked makes an ID that looks like those of real runtimes.
func (r *Runtime) identityLocked(uid types.UID) string {
	r.count++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", uid, r.count))
	return "hollow://" + hex.EncodeToString(sum[:])
}

// RunSandbox makes a fake sandbox.
func (r *Runtime) RunSandbox(_ context.Context, spec *container.SandboxSpec) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	uid := spec.Pod.UID
	p := r.pods[uid]
	if p == nil {
		p = &pod{Pod: container.Pod{UID: uid, Namespace: spec.Pod.Namespace, Name: spec.Pod.Name}, node: spec.Pod.Spec.NodeName}
		r.pods[uid] = p
	}
	box := container.Sandbox{ID: r.identityLocked(uid), Attempt: spec.Attempt, Ready: true, CreatedAt: time.Now()}
	if !spec.Pod.Spec.HostNetwork {
		ip, err := r.addresses.take(p.node)
		if err != nil {
			return "", err
		}
		box.IPs = []string{ip}
	}
	p.Sandboxes = slices.Insert(p.Sandboxes, 0, box)
	r.owners[box.ID] = uid
	return box.ID, nil
}

// StopSandbox stops a sandbox and its containers.
func (r *Runtime) StopSandbox(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pods[r.owners[id]]
	if p == nil {
		return nil
	}
	for i := range p.Sandboxes {
		box := &p.Sandboxes[i]
		if box.ID != id || !box.Ready {
			continue
		}
		box.Ready = false
		for _, ip := range box.IPs {
			r.addresses.free(p.node, ip)
		}
		box.IPs = nil
	}
	for i := range p.Containers {
		if p.Containers[i].SandboxID == id {
			r.endLocked(p, &p.Containers[i], killed)
		}
	}
	return nil
}

// RemoveSandbox removes a sandbox.
func (r *Runtime) RemoveSandbox(ctx context.Context, id string) error {
	if err := r.StopSandbox(ctx, id); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	uid := r.owners[id]
	delete(r.owners, id)
	p := r.pods[uid]
	if p == nil {
		return nil
	}
	p.Sandboxes = slices.DeleteFunc(p.Sandboxes, func(s container.Sandbox) bool { return s.ID == id })
	for _, c := range p.Containers {
		if c.SandboxID == id {
			delete(r.owners, c.ID)
			p.forget(c.ID)
		}
	}
	p.Containers = slices.DeleteFunc(p.Containers, func(c container.Container) bool { return c.SandboxID == id })
	if len(p.Sandboxes) == 0 {
		delete(r.pods, uid)
	}
	return nil
}

// Events calls changed for pods whose containers have changed by themselves.
func (r *Runtime) Events(ctx context.Context, changed func(types.UID)) error {
	r.mu.Lock()
	r.changed = changed
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = nil
	return nil
}

func (r *Runtime) announceLocked(uid types.UID) {
	if r.changed != nil {
		r.changed(uid)
	}
}

// Exec returns an error: there are no processes.
func (r *Runtime) Exec(context.Context, string, []string) (container.Output, error) {
	return container.Output{}, fmt.Errorf("a hollow container has no processes: %w", container.ErrUnsupported)
}

// Find finds every image.
func (r *Runtime) Find(_ context.Context, image string) (string, error) {
	sum := sha256.Sum256([]byte(image))
	return image + "@sha256:" + hex.EncodeToString(sum[:]), nil
}

// Pull downloads nothing.
func (r *Runtime) Pull(ctx context.Context, image string, _ []container.Credential) (string, error) {
	return r.Find(ctx, image)
}

// Probe answers as the script says.
func (r *Runtime) Probe(_ context.Context, id string, kind container.ProbeKind, _ *corev1.Probe) (bool, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, c := r.findLocked(id)
	if c == nil || c.State != container.Running {
		return false, "", container.ErrNotFound
	}
	s, age := &p.run(id).script, time.Since(c.StartedAt)
	after := func(d time.Duration) bool { return d >= 0 && age >= d }
	ok, why := after(s.readyAfter), "scripted to start slowly"
	switch kind {
	case container.Liveness:
		ok, why = !after(s.unhealthyAfter), "scripted to be unhealthy"
	case container.Readiness:
		ok, why = after(s.readyAfter) && !after(s.unreadyAfter), "scripted to be unready"
	}
	if ok {
		why = ""
	}
	return ok, why, nil
}
