package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

const (
	idleTime     = 4 * time.Hour
	creationTime = 30 * time.Second
)

// pod finds the pod, and the container, that a path names. Otherwise it answers.
func (s *Server) pod(w http.ResponseWriter, r *http.Request) (*corev1.Pod, string, bool) {
	namespace, name, container := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	pod, ok := s.Node.Pod(namespace, name)
	if uid := r.PathValue("uid"); ok && uid != "" && string(pod.UID) != uid {
		ok = false
	}
	if !ok {
		http.Error(w, fmt.Sprintf("pod %q does not exist", name), http.StatusNotFound)
		return nil, "", false
	}
	if container != "" && !has(pod, container) {
		http.Error(w, fmt.Sprintf("container %q not found in pod %q", container, name), http.StatusNotFound)
		return nil, "", false
	}
	return pod, container, true
}

func has(pod *corev1.Pod, name string) bool {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		if slices.ContainsFunc(list, func(c corev1.Container) bool { return c.Name == name }) {
			return true
		}
	}
	return slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name })
}

func (s *Server) pods(w http.ResponseWriter, _ *http.Request) {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{}}
	for _, pod := range s.Node.Pods() {
		list.Items = append(list.Items, *pod)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(&list) // whoever asked has gone
}

func answer(w http.ResponseWriter, err error) {
	var problem *Problem
	if errors.As(err, &problem) {
		http.Error(w, problem.Message, problem.Status)
		return
	}
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

// firstByte notes whether something has been written, and hands on at once where a reader follows.
type firstByte struct {
	http.ResponseWriter
	begun, follow bool
}

func (f *firstByte) Write(p []byte) (int, error) {
	f.begin()
	n, err := f.ResponseWriter.Write(p)
	if f.follow {
		f.Flush()
	}
	return n, err
}

func (f *firstByte) begin() {
	if !f.begun {
		f.begun = true
		f.Header().Set("Content-Type", "text/plain")
		f.Header().Set("Transfer-Encoding", "chunked")
	}
}

// Flush hands on what was written, or at least that an answer has begun.
func (f *firstByte) Flush() {
	f.begin()
	if flusher, ok := f.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
}

func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	o, err := logOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	pod, container, ok := s.pod(w, r)
	if !ok {
		return
	}
	out := &firstByte{ResponseWriter: w, follow: o.Follow}
	err = s.Node.Logs(r.Context(), pod, container, o, out)
	switch {
	case err == nil:
		out.begin()
	case !out.begun:
		answer(w, err)
	default:
		s.Logger.Debug("log ended early", "pod", pod.Namespace+"/"+pod.Name, "container", container, "err", err)
	}
}

func logOptions(r *http.Request) (*corev1.PodLogOptions, error) {
	q := r.URL.Query()
	o := &corev1.PodLogOptions{
		Follow: truth(q.Get("follow")), Previous: truth(q.Get("previous")), Timestamps: truth(q.Get("timestamps")),
	}
	for _, field := range []struct {
		name string
		into **int64
	}{{"tailLines", &o.TailLines}, {"limitBytes", &o.LimitBytes}, {"sinceSeconds", &o.SinceSeconds}} {
		text := q.Get(field.name)
		if text == "" || field.name == "tailLines" && text == "all" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%s: %q is no number", field.name, text)
		}
		*field.into = &n
	}
	if text := q.Get("sinceTime"); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, fmt.Errorf("sinceTime: %w", err)
		}
		o.SinceTime = &metav1.Time{Time: at}
	}
	if text := q.Get("stream"); text != "" && text != corev1.LogStreamAll {
		o.Stream = &text
	}
	return o, nil
}

func truth(text string) bool { return text == "true" || text == "1" }

// caller is a Node as the streaming library wants it, for one pod.
type caller struct {
	node Node
	pod  *corev1.Pod
}

func (c caller) ExecInContainer(ctx context.Context, _, _ string, container string, command []string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	return c.node.Exec(ctx, c.pod, container, command, Streams{in, out, err, tty, resize})
}

func (c caller) AttachContainer(ctx context.Context, _, _ string, container string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	return c.node.Attach(ctx, c.pod, container, Streams{in, out, err, tty, resize})
}

func (c caller) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	return c.node.Forward(ctx, c.pod, port, stream)
}

func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	pod, container, ok := s.pod(w, r)
	if !ok {
		return
	}
	o, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if wsstream.IsWebSocketRequest(r) {
		s.webSocket(w, r, o, func(ctx context.Context, streams Streams) error {
			return s.Node.Exec(ctx, pod, container, r.URL.Query()["command"], streams)
		})
		return
	}
	remotecommand.ServeExec(w, r, caller{s.Node, pod}, pod.Name, string(pod.UID), container, r.URL.Query()["command"], o, idleTime, creationTime, remotecommand.SupportedStreamingProtocols)
}

func (s *Server) webSocket(w http.ResponseWriter, r *http.Request, o *remotecommand.Options, do func(context.Context, Streams) error) {
	if err := serveWebSocket(w, r, o, do); err != nil {
		s.Logger.Debug("stream ended", "path", r.URL.Path, "err", err)
	}
}

func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	pod, container, ok := s.pod(w, r)
	if !ok {
		return
	}
	o, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if wsstream.IsWebSocketRequest(r) {
		s.webSocket(w, r, o, func(ctx context.Context, streams Streams) error { return s.Node.Attach(ctx, pod, container, streams) })
		return
	}
	remotecommand.ServeAttach(w, r, caller{s.Node, pod}, pod.Name, string(pod.UID), container, o, idleTime, creationTime, remotecommand.SupportedStreamingProtocols)
}

func (s *Server) forward(w http.ResponseWriter, r *http.Request) {
	pod, _, ok := s.pod(w, r)
	if !ok {
		return
	}
	o, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, caller{s.Node, pod}, pod.Name, string(pod.UID), o, idleTime, creationTime, portforward.SupportedProtocols)
}

// run runs a command without streams and answers with what it printed.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	pod, container, ok := s.pod(w, r)
	if !ok {
		return
	}
	out := nopCloser{w}
	if err := s.Node.Exec(r.Context(), pod, container, r.URL.Query()["cmd"], Streams{Out: out, Err: out}); err != nil {
		answer(w, err)
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
