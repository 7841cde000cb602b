// Package conformance checks that a container runtime keeps the guarantees of package container, by their names:
// Truthful, Remembered, Announced, Graceful, Idempotent, Resizable.
package conformance

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// Subject is a runtime under test.
type Subject struct {
	Runtime container.Runtime
	Images  container.Images
	// Image is an image that the runtime has.
	Image string
	// Running returns a pod with one container, "main", that runs until it is stopped and then exits at once. The
	// container of Ending exits by itself with code 3, soon but not at once.
	Running, Ending func() *corev1.Pod
	// Timeout bounds each step. Nothing is measured by it.
	Timeout time.Duration
}

// Run runs the suite.
func Run(t *testing.T, s *Subject) {
	for _, test := range []struct {
		name  string
		check func(*testing.T, *Subject, context.Context)
	}{
		{"Truthful", truthful}, {"Remembered", remembered}, {"Announced", announced}, {"Graceful", graceful}, {"Idempotent", idempotent},
		{"Resizable", resizable},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), s.Timeout)
			defer cancel()
			test.check(t, s, ctx)
		})
	}
}

// begun is a pod with a started container.
type begun struct {
	*Subject
	t       *testing.T
	ctx     context.Context
	uid     types.UID
	box, id string
}

func begin(t *testing.T, s *Subject, ctx context.Context, pod *corev1.Pod) *begun {
	t.Helper()
	pod.UID = uuid.NewUUID()
	b := &begun{Subject: s, t: t, ctx: ctx, uid: pod.UID}
	ref, err := s.Images.Find(ctx, s.Image)
	if err != nil || ref == "" {
		t.Fatalf("find image %s: %q, %v", s.Image, ref, err)
	}
	spec := &container.SandboxSpec{Pod: pod}
	b.box, err = s.Runtime.RunSandbox(ctx, spec)
	if err != nil {
		t.Fatalf("run sandbox: %v", err)
	}
	t.Cleanup(func() { b.clear() })
	c := &pod.Spec.Containers[0]
	b.id, err = s.Runtime.Create(ctx, b.box, &container.Spec{
		Pod: pod, Container: c, ImageRef: ref, Hash: 7, Sandbox: spec, Command: c.Command, Args: c.Args,
	})
	if err != nil {
		t.Fatalf("create container: %v", err)
	}
	if run := b.run(); run == nil || run.State != container.Created {
		t.Fatalf("a container that was created shows as %+v", run)
	}
	if err := s.Runtime.Start(ctx, b.id); err != nil {
		t.Fatalf("start container: %v", err)
	}
	return b
}

func (b *begun) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), b.Timeout)
	defer cancel()
	for _, do := range []func() error{
		func() error { return b.Runtime.Stop(ctx, b.id, 0) },
		func() error { return b.Runtime.StopSandbox(ctx, b.box) },
		func() error { return b.Runtime.Remove(ctx, b.id) },
		func() error { return b.Runtime.RemoveSandbox(ctx, b.box) },
	} {
		if err := do(); err != nil {
			b.t.Errorf("clear up: %v", err)
		}
	}
}

func (b *begun) pod() container.Pod {
	b.t.Helper()
	pod, err := b.Runtime.Pod(b.ctx, b.uid)
	if err != nil {
		b.t.Fatalf("look at the pod: %v", err)
	}
	return pod
}

func (b *begun) run() *container.Container {
	b.t.Helper()
	pod := b.pod()
	return pod.Container("main")
}

func resizable(t *testing.T, s *Subject, ctx context.Context) {
	b := begin(t, s, ctx, s.Running())
	pod := s.Running()
	c := &pod.Spec.Containers[0]
	c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	if err := s.Runtime.Resize(ctx, b.id, pod, c); err != nil {
		t.Fatalf("resize a container: %v", err)
	}
	if run := b.run(); run == nil || run.State != container.Running || run.ID != b.id {
		t.Errorf("a container that was resized shows as %+v", run)
	}
	if err := s.Runtime.Stop(ctx, b.id, 0); err != nil {
		t.Fatalf("stop the container: %v", err)
	}
	if err := s.Runtime.Remove(ctx, b.id); err != nil {
		t.Fatalf("remove the container: %v", err)
	}
	if err := s.Runtime.Resize(ctx, b.id, pod, c); err == nil {
		t.Error("a container that is gone was resized")
	}
}

func truthful(t *testing.T, s *Subject, ctx context.Context) {
	b := begin(t, s, ctx, s.Running())
	pod := b.pod()
	if box := pod.Sandbox(); box == nil || !box.Ready || box.ID != b.box || len(box.IPs) == 0 {
		t.Errorf("the sandbox shows as %+v", box)
	}
	run := pod.Container("main")
	if run == nil || run.State != container.Running || run.ID != b.id || run.Hash != 7 || run.StartedAt.IsZero() || run.Image != s.Image {
		t.Errorf("the container shows as %+v", run)
	}
	all, err := s.Runtime.Pods(ctx)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, p := range all {
		found = found || p.UID == b.uid && len(p.Containers) == 1 && len(p.Sandboxes) == 1
	}
	if !found {
		t.Errorf("the pod is not among %d", len(all))
	}
	if other, err := s.Runtime.Pod(ctx, "nobody"); err != nil || len(other.Containers)+len(other.Sandboxes) > 0 {
		t.Errorf("a pod that does not exist shows as %+v, %v", other, err)
	}
}

func remembered(t *testing.T, s *Subject, ctx context.Context) {
	b := begin(t, s, ctx, s.Ending())
	run := b.until(container.Exited)
	if run.ExitCode != 3 || run.FinishedAt.IsZero() || run.FinishedAt.Before(run.StartedAt) {
		t.Errorf("a container that ended with 3 shows as %+v", run)
	}
	if err := s.Runtime.Remove(ctx, b.id); err != nil {
		t.Fatal(err)
	}
	if run := b.run(); run != nil {
		t.Errorf("a container that was removed shows as %+v", run)
	}
}

// until waits for a state of the container. It reads the state only after an event of the runtime.
func (b *begun) until(state container.State) *container.Container {
	b.t.Helper()
	news := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(b.ctx)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer cancel()
	listening.Go(func() {
		err := b.Runtime.Events(ctx, func(uid types.UID) {
			if uid != b.uid {
				return
			}
			select {
			case news <- struct{}{}:
			default:
			}
		})
		if err != nil {
			b.t.Errorf("events ended: %v", err)
		}
	})
	for {
		if run := b.run(); run != nil && run.State == state {
			return run
		}
		select {
		case <-news:
		case <-b.ctx.Done():
			b.t.Fatalf("the state %d was not announced; the container shows as %+v", state, b.run())
		}
	}
}

func announced(t *testing.T, s *Subject, ctx context.Context) {
	b := begin(t, s, ctx, s.Ending())
	b.until(container.Exited)
}

// enoughGrace is the grace period. A container that was started a moment ago may not handle signals yet; it is killed
// at the end of this period.
const enoughGrace = 3 * time.Second

func graceful(t *testing.T, s *Subject, ctx context.Context) {
	b := begin(t, s, ctx, s.Running())
	if err := s.Runtime.Stop(ctx, b.id, enoughGrace); err != nil {
		t.Fatal(err)
	}
	if run := b.run(); run == nil || run.State != container.Exited {
		t.Fatalf("after Stop the container shows as %+v", run)
	}
}

func idempotent(t *testing.T, s *Subject, ctx context.Context) {
	b := begin(t, s, ctx, s.Running())
	for range 2 {
		for name, do := range map[string]func() error{
			"stop":         func() error { return s.Runtime.Stop(ctx, b.id, time.Second) },
			"stop sandbox": func() error { return s.Runtime.StopSandbox(ctx, b.box) },
		} {
			if err := do(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for range 2 {
		if err := s.Runtime.Remove(ctx, b.id); err != nil {
			t.Errorf("remove: %v", err)
		}
		if err := s.Runtime.RemoveSandbox(ctx, b.box); err != nil {
			t.Errorf("remove sandbox: %v", err)
		}
	}
	if pod := b.pod(); len(pod.Sandboxes)+len(pod.Containers) > 0 {
		t.Errorf("what was removed shows as %+v", pod)
	}
}
