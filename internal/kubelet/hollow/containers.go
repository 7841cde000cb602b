package hollow

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// killed is the exit code of a killed container. A fake container that stops in time exits with 0.
const killed = 137

// kept is how many runs of a container stay visible.
const kept = 2

func (r *Runtime) findLocked(id string) (*pod, *container.Container) {
	p := r.pods[r.owners[id]]
	if p == nil {
		return nil, nil
	}
	for i := range p.Containers {
		if p.Containers[i].ID == id {
			return p, &p.Containers[i]
		}
	}
	return nil, nil
}

// Create makes a fake container.
func (r *Runtime) Create(_ context.Context, sandbox string, spec *container.Spec) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pods[r.owners[sandbox]]
	if p == nil {
		return "", container.ErrNotFound
	}
	c := container.Container{
		ID: r.identityLocked(p.UID), Name: spec.Container.Name, SandboxID: sandbox, Attempt: spec.Attempt, State: container.Created,
		CreatedAt: time.Now(), Image: spec.Container.Image, ImageRef: spec.ImageRef, Hash: spec.Hash,
	}
	p.Containers = slices.Insert(p.Containers, 0, c)
	p.runs = append(p.runs, &run{id: c.ID, script: scriptOf(spec.Pod, spec.Container)})
	r.owners[c.ID] = p.UID
	r.pruneLocked(p, c.Name)
	return c.ID, nil
}

// pruneLocked removes old runs.
func (r *Runtime) pruneLocked(p *pod, name string) {
	seen := 0
	p.Containers = slices.DeleteFunc(p.Containers, func(c container.Container) bool {
		if c.Name != name {
			return false
		}
		seen++
		if seen <= kept || c.State != container.Exited {
			return false
		}
		p.forget(c.ID)
		delete(r.owners, c.ID)
		return true
	})
}

// Resize sets the resources of a fake container.
func (r *Runtime) Resize(_ context.Context, id string, _ *corev1.Pod, _ *corev1.Container) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, c := r.findLocked(id); c == nil {
		return container.ErrNotFound
	}
	return nil
}

// Start starts a container's script.
func (r *Runtime) Start(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, c := r.findLocked(id)
	if c == nil {
		return container.ErrNotFound
	}
	if d := p.run(id).script.startDelay; d > 0 {
		r.laterLocked(p, id, d, r.beginLocked)
		return nil
	}
	r.beginLocked(p, c)
	return nil
}

// laterLocked runs do on a container after a delay, and announces the change.
func (r *Runtime) laterLocked(p *pod, id string, d time.Duration, do func(*pod, *container.Container)) {
	uid := p.UID
	p.run(id).timer = time.AfterFunc(d, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if p, c := r.findLocked(id); c != nil {
			do(p, c)
			r.announceLocked(uid)
		}
	})
}

func (r *Runtime) beginLocked(p *pod, c *container.Container) {
	c.State, c.StartedAt = container.Running, time.Now()
	lasts, code := p.run(c.ID).script.run(c.Attempt)
	switch {
	case lasts == 0:
		r.endLocked(p, c, code)
	case lasts > 0:
		r.laterLocked(p, c.ID, lasts, func(p *pod, c *container.Container) { r.endLocked(p, c, code) })
	}
}

func (r *Runtime) endLocked(p *pod, c *container.Container, code int32) {
	if c.State == container.Exited {
		return
	}
	run := p.run(c.ID)
	if run.timer != nil {
		run.timer.Stop()
		run.timer = nil
	}
	c.State, c.FinishedAt, c.ExitCode, c.Message = container.Exited, time.Now(), code, run.script.left(code)
	if c.StartedAt.IsZero() {
		c.StartedAt = c.FinishedAt
	}
	if run.ended != nil {
		close(run.ended)
		run.ended = nil
	}
}

// Stop ends a container at once, or after its script's stop delay, but at the latest after its grace period.
func (r *Runtime) Stop(ctx context.Context, id string, grace time.Duration) error {
	r.mu.Lock()
	p, c := r.findLocked(id)
	if c == nil || c.State == container.Exited {
		r.mu.Unlock()
		return nil
	}
	delay := p.run(id).script.stopDelay
	if delay == 0 {
		r.endLocked(p, c, 0)
		r.announceLocked(p.UID)
		r.mu.Unlock()
		return nil
	}
	code := int32(0)
	if delay > grace {
		delay, code = grace, killed
	}
	ended := p.run(id).endLocked()
	r.mu.Unlock()
	return r.await(ctx, id, ended, delay, code)
}

// await waits until a container has ended, and ends it after delay.
func (r *Runtime) await(ctx context.Context, id string, ended <-chan struct{}, delay time.Duration, code int32) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, c := r.findLocked(id); c != nil {
		r.endLocked(p, c, code)
		r.announceLocked(p.UID)
	}
	return nil
}

// Remove removes a container.
func (r *Runtime) Remove(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, c := r.findLocked(id)
	if c == nil {
		return nil
	}
	r.endLocked(p, c, killed)
	delete(r.owners, id)
	p.forget(id)
	p.Containers = slices.DeleteFunc(p.Containers, func(c container.Container) bool { return c.ID == id })
	return nil
}
