package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/remotecommand"
	streaming "k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/logs"
	"github.com/millrace/millrace/internal/kubelet/server"
	"github.com/millrace/millrace/internal/kubelet/source"
)

// served implements server.Node for a Kubelet.
type served struct{ *Kubelet }

// Pod returns a pod of the node. The name of a mirror pod leads to its static pod.
func (s served) Pod(namespace, name string) (*corev1.Pod, bool) {
	return s.config.Pod(source.Key{Namespace: namespace, Name: name})
}

func (s served) Pods() []*corev1.Pod { return s.config.Pods() }

func (s served) Healthy(ctx context.Context) error {
	if problem := s.health.works(); problem != "" {
		return errors.New(problem)
	}
	return ctx.Err()
}

func (s served) run(ctx context.Context, pod *corev1.Pod, name string) (*container.Container, *container.Pod, error) {
	state, err := s.runtime.Pod(ctx, pod.UID)
	if err != nil {
		return nil, nil, err
	}
	return state.Container(name), &state, nil
}

// Logs writes a container's log.
func (s served) Logs(ctx context.Context, pod *corev1.Pod, name string, o *corev1.PodLogOptions, w io.Writer) error {
	run, state, err := s.run(ctx, pod, name)
	if err != nil {
		return err
	}
	if o.Previous {
		if run = state.Previous(name); run == nil {
			return &server.Problem{Status: http.StatusBadRequest, Message: fmt.Sprintf("previous terminated container %q in pod %q not found", name, pod.Name)}
		}
	}
	if run == nil || run.State == container.Created || run.LogPath == "" {
		return &server.Problem{Status: http.StatusBadRequest, Message: fmt.Sprintf("container %q in pod %q is waiting to start: %s", name, pod.Name, s.waiting(pod, name))}
	}
	options := logs.Options{Follow: o.Follow && !o.Previous, Tail: o.TailLines, Limit: o.LimitBytes, Timestamps: o.Timestamps, Ended: s.ended(ctx, pod, run.ID)}
	switch {
	case o.SinceSeconds != nil:
		options.Since = time.Now().Add(-demand.Seconds(*o.SinceSeconds))
	case o.SinceTime != nil:
		options.Since = o.SinceTime.Time
	}
	if o.Stream != nil {
		options.Stream = map[string]string{corev1.LogStreamStdout: "stdout", corev1.LogStreamStderr: "stderr"}[*o.Stream]
	}
	if f, ok := w.(http.Flusher); ok && o.Follow {
		f.Flush()
	}
	return logs.Read(ctx, run.LogPath, options, w)
}

// ended returns a function that reports whether a run has ended. It asks the runtime at most once a second.
func (s served) ended(ctx context.Context, pod *corev1.Pod, id string) func() bool {
	var asked time.Time
	ended := false
	return func() bool {
		if ended || time.Since(asked) < time.Second {
			return ended
		}
		asked = time.Now()
		state, err := s.runtime.Pod(ctx, pod.UID)
		if err != nil {
			return false
		}
		ended = true
		for i := range state.Containers {
			if c := &state.Containers[i]; c.ID == id && c.State == container.Running {
				ended = false
			}
		}
		return ended
	}
}

func (s served) waiting(pod *corev1.Pod, name string) string {
	status := &pod.Status
	if told, ok := s.crew.Status(informer.KeyOf(pod)); ok {
		status = told
	}
	for _, list := range [][]corev1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range list {
			if w := list[i].State.Waiting; list[i].Name == name && w != nil {
				return w.Reason
			}
		}
	}
	return "ContainerCreating"
}

// Exec runs a command in a container.
func (s served) Exec(ctx context.Context, pod *corev1.Pod, name string, command []string, streams server.Streams) error {
	run, err := s.running(ctx, pod, name)
	if err != nil {
		return err
	}
	return s.runtime.Stream(ctx, run.ID, command, connected(ctx, streams))
}

// Attach connects streams with a container's input and output.
func (s served) Attach(ctx context.Context, pod *corev1.Pod, name string, streams server.Streams) error {
	run, err := s.running(ctx, pod, name)
	if err != nil {
		return err
	}
	c := connected(ctx, streams)
	c.Once = hearsOnce(pod, name)
	return s.runtime.Attach(ctx, run.ID, c)
}

// hearsOnce reports whether a container has stdinOnce set.
func hearsOnce(pod *corev1.Pod, name string) bool {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return list[i].StdinOnce
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if c := &pod.Spec.EphemeralContainers[i]; c.Name == name {
			return c.StdinOnce
		}
	}
	return false
}

// Forward connects a stream with a port of a pod.
func (s served) Forward(ctx context.Context, pod *corev1.Pod, port int32, stream io.ReadWriteCloser) error {
	_, state, err := s.run(ctx, pod, "")
	if err != nil {
		return err
	}
	box := state.Sandbox()
	if box == nil || !box.Ready {
		return fmt.Errorf("pod %q is not running", pod.Name)
	}
	return s.runtime.Forward(ctx, box.ID, port, stream)
}

func (s served) running(ctx context.Context, pod *corev1.Pod, name string) (*container.Container, error) {
	run, _, err := s.run(ctx, pod, name)
	if err != nil {
		return nil, err
	}
	if run == nil || run.State != container.Running {
		return nil, fmt.Errorf("container not found (%q)", name)
	}
	return run, nil
}

// connected converts streams for the runtime. A missing stream must become a nil interface, not an interface that holds
// a nil pointer.
func connected(ctx context.Context, s server.Streams) container.Streams {
	c := container.Streams{TTY: s.TTY}
	if s.In != nil {
		c.In = s.In
	}
	if s.Out != nil {
		c.Out = s.Out
	}
	if s.Err != nil {
		c.Err = s.Err
	}
	if s.TTY && s.Resize != nil {
		c.Resize = sizeQueue{ctx, s.Resize}
	}
	return c
}

// sizeQueue passes on a terminal's sizes.
type sizeQueue struct {
	ctx   context.Context
	sizes <-chan streaming.TerminalSize
}

func (q sizeQueue) Next() *remotecommand.TerminalSize {
	select {
	case size, ok := <-q.sizes:
		if !ok {
			return nil
		}
		return &remotecommand.TerminalSize{Width: size.Width, Height: size.Height}
	case <-q.ctx.Done():
		return nil
	}
}

// removeVolume removes the directory of a released local volume.
func (s served) removeVolume(w http.ResponseWriter, r *http.Request) {
	if err := s.furnish.RemoveLocal(r.PathValue("name")); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
