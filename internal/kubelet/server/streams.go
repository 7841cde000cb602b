package server

import (
	"context"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

const (
	idleTime     = 4 * time.Hour
	creationTime = 30 * time.Second
)

// session connects a client with a command or a container. It implements the interfaces of the streaming library, and
// ignores the names that the library passes, because it has them already.
type session struct {
	node Node
	pod  *corev1.Pod
	run  func(ctx context.Context, s Streams) error
}

// unlessGone returns err, or nil if the client has disconnected.
func unlessGone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// ExecInContainer implements remotecommand.Executor.
func (s session) ExecInContainer(ctx context.Context, _, _, _ string, _ []string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	return unlessGone(ctx, s.run(ctx, Streams{in, out, err, tty, resize}))
}

// AttachContainer implements remotecommand.Attacher.
func (s session) AttachContainer(ctx context.Context, _, _, _ string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	return unlessGone(ctx, s.run(ctx, Streams{in, out, err, tty, resize}))
}

// PortForward implements portforward.PortForwarder.
func (s session) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	return s.node.Forward(ctx, s.pod, port, stream)
}

func (s *Server) exec(w http.ResponseWriter, r *http.Request, pod *corev1.Pod, container string) {
	command := r.URL.Query()["command"]
	x := session{s.Node, pod, func(ctx context.Context, streams Streams) error {
		return s.Node.Exec(ctx, pod, container, command, streams)
	}}
	s.connect(w, r, x, func(o *remotecommand.Options) {
		remotecommand.ServeExec(w, r, x, pod.Name, string(pod.UID), container, command, o, idleTime, creationTime, remotecommand.SupportedStreamingProtocols)
	})
}

func (s *Server) attach(w http.ResponseWriter, r *http.Request, pod *corev1.Pod, container string) {
	x := session{s.Node, pod, func(ctx context.Context, streams Streams) error { return s.Node.Attach(ctx, pod, container, streams) }}
	s.connect(w, r, x, func(o *remotecommand.Options) {
		remotecommand.ServeAttach(w, r, x, pod.Name, string(pod.UID), container, o, idleTime, creationTime, remotecommand.SupportedStreamingProtocols)
	})
}

// connect serves a session over a WebSocket or over SPDY.
func (s *Server) connect(w http.ResponseWriter, r *http.Request, x session, spdy func(*remotecommand.Options)) {
	o, err := remotecommand.NewOptions(r)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case !wsstream.IsWebSocketRequest(r):
		spdy(o)
	default:
		if err := serveWebSocket(w, r, o, x.run); err != nil {
			s.Logger.Debug("stream ended", "path", r.URL.Path, "err", err)
		}
	}
}

func (s *Server) forward(w http.ResponseWriter, r *http.Request, pod *corev1.Pod, _ string) {
	o, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, session{node: s.Node, pod: pod}, pod.Name, string(pod.UID), o, idleTime, creationTime, portforward.SupportedProtocols)
}

// run runs a command without streams and returns its output.
func (s *Server) run(w http.ResponseWriter, r *http.Request, pod *corev1.Pod, container string) {
	out := nopCloser{w}
	if err := s.Node.Exec(r.Context(), pod, container, r.URL.Query()["cmd"], Streams{Out: out, Err: out}); err != nil {
		answer(w, err)
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
