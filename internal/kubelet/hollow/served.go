package hollow

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/server"
	"github.com/millrace/millrace/internal/kubelet/stats"
	"github.com/millrace/millrace/internal/kubelet/worker"
)

// served implements server.Node for all hollow nodes.
type served struct{ *Nodes }

func (s served) Pod(namespace, name string) (*corev1.Pod, bool) {
	return s.wanted(worker.Key{Namespace: namespace, Name: name})
}

func (s served) Pods() []*corev1.Pod {
	var all []*corev1.Pod
	for pod := range s.pods.List() {
		if s.has(pod.Spec.NodeName) {
			all = append(all, pod)
		}
	}
	return all
}

// Routes returns additional handlers. Removing a fake volume does nothing.
func (s served) Routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /stats/summary":          s.summarize("application/json", writeJSON),
		"GET /metrics/resource":       s.summarize(stats.TextType, (*stats.Summary).WriteResources),
		"DELETE /localVolumes/{name}": func(http.ResponseWriter, *http.Request) {},
	}
}

func (s served) Healthy(context.Context) error { return nil }

// Logs writes the scripted text of a run.
func (s served) Logs(ctx context.Context, pod *corev1.Pod, name string, o *corev1.PodLogOptions, w io.Writer) error {
	state, err := s.runtime.Pod(ctx, pod.UID)
	if err != nil {
		return err
	}
	run := state.Container(name)
	if o.Previous {
		if run = state.Previous(name); run == nil {
			return &server.Problem{Status: http.StatusBadRequest, Message: fmt.Sprintf("previous terminated container %q in pod %q not found", name, pod.Name)}
		}
	}
	if run == nil || run.State == container.Created {
		return &server.Problem{Status: http.StatusBadRequest, Message: fmt.Sprintf("container %q in pod %q is waiting to start: ContainerCreating", name, pod.Name)}
	}
	printed := s.runtime.log(run.ID)
	if printed == "" {
		printed = unscripted(pod, name)
	}
	if _, err := io.WriteString(w, text(printed, run, o)); err != nil {
		return err
	}
	if o.Follow && !o.Previous {
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		s.runtime.untilEnd(ctx, run.ID)
	}
	return nil
}

// unscripted returns the log of a container whose log nobody has written: what a real node would run. An annotation
// without text asks for an empty log.
func unscripted(pod *corev1.Pod, name string) string {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name != name {
			continue
		}
		if _, ok := (reader{pod.Annotations, name, once(pod, &c)}).text("log"); ok {
			return ""
		}
		what := "the image " + c.Image
		if command := append(slices.Clone(c.Command), c.Args...); len(command) > 0 {
			what = fmt.Sprintf("%q of %s", command, what)
		}
		return fmt.Sprintf("Pretended by a hollow node: a real one would run %s. The annotation %slog has lines to print.\n", what, Prefix)
	}
	return ""
}

// text returns the selected part of a run's log. All of it is printed when the run begins.
func text(script string, run *container.Container, o *corev1.PodLogOptions) string {
	since := time.Time{}
	if o.SinceSeconds != nil {
		since = time.Now().Add(-demand.Seconds(*o.SinceSeconds))
	} else if o.SinceTime != nil {
		since = o.SinceTime.Time
	}
	if script == "" || run.StartedAt.Before(since) {
		return ""
	}
	lines := strings.SplitAfter(strings.TrimSuffix(script, "\n")+"\n", "\n")
	lines = lines[:len(lines)-1]
	if o.TailLines != nil {
		lines = lines[max(0, len(lines)-int(*o.TailLines)):]
	}
	var b strings.Builder
	for _, line := range lines {
		if o.Timestamps {
			b.WriteString(run.StartedAt.UTC().Format(time.RFC3339Nano) + " ")
		}
		b.WriteString(line)
	}
	if o.LimitBytes != nil {
		return b.String()[:min(int(*o.LimitBytes), b.Len())]
	}
	return b.String()
}

func refuse(pod *corev1.Pod, what string) error {
	return fmt.Errorf("%s is not possible: pod %q runs on a hollow node, whose containers are pretended", what, pod.Name)
}

func (s served) Exec(_ context.Context, pod *corev1.Pod, _ string, _ []string, _ server.Streams) error {
	return refuse(pod, "exec")
}

func (s served) Attach(_ context.Context, pod *corev1.Pod, _ string, _ server.Streams) error {
	return refuse(pod, "attach")
}

func (s served) Forward(_ context.Context, pod *corev1.Pod, _ int32, _ io.ReadWriteCloser) error {
	return refuse(pod, "port forwarding")
}

// log returns what a run prints.
func (r *Runtime) log(id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, c := r.findLocked(id); c != nil {
		return p.run(id).script.log
	}
	return ""
}

// untilEnd waits until a run has ended.
func (r *Runtime) untilEnd(ctx context.Context, id string) {
	r.mu.Lock()
	p, c := r.findLocked(id)
	if c == nil || c.State == container.Exited {
		r.mu.Unlock()
		return
	}
	ended := p.run(id).endLocked()
	r.mu.Unlock()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// endLocked returns a channel that is closed when the run has ended.
func (r *run) endLocked() <-chan struct{} {
	if r.ended == nil {
		r.ended = make(chan struct{})
	}
	return r.ended
}
