package cri

import (
	"context"
	"io"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/remotecommand"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// attachApart attaches to a container's stderr over a connection of its own, before its input and output.
//
// If a container's stdin stays open for later clients, containerd closes all streams that were attached together with
// the input as soon as one output ends. If stderr ended first, the last lines of stdout would be lost.
func (r *Runtime) attachApart(ctx context.Context, id string, s container.Streams) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	told, err := r.failures(ctx, id)
	if err != nil {
		return err
	}
	var reading sync.WaitGroup
	defer reading.Wait()
	defer told.conn.Close()
	reading.Go(func() { _, _ = io.Copy(io.Discard, told.end) }) // the end of stdout says the same
	over := make(chan struct{})
	reading.Go(func() {
		defer close(over)
		_, _ = io.Copy(s.Err, told.text)
	})
	in := &noted{Reader: s.In, ended: make(chan struct{})}
	address, err := r.attachment(ctx, id, container.Streams{In: in, Out: s.Out})
	if err == nil {
		err = connect(ctx, address, container.Streams{In: in, Out: s.Out})
	}
	if err != nil {
		return err
	}
	select {
	case <-over:
	case <-in.ended: // the client has disconnected, and the container may keep running
	case <-ctx.Done():
	}
	return ctx.Err()
}

// failures has a container's stderr, and how it ended.
type failures struct {
	conn      httpstream.Connection
	text, end io.Reader
}

// failures attaches to a container's stderr. Once it has returned, no output is lost.
func (r *Runtime) failures(ctx context.Context, id string) (f failures, err error) {
	address, err := r.attachment(ctx, id, container.Streams{Err: io.Discard})
	if err != nil {
		return f, err
	}
	if f.conn, err = dialStreams(address, remotecommand.StreamProtocolV4Name); err != nil {
		return f, err
	}
	if f.end, err = f.conn.CreateStream(http.Header{corev1.StreamType: {corev1.StreamTypeError}}); err == nil {
		f.text, err = f.conn.CreateStream(http.Header{corev1.StreamType: {corev1.StreamTypeStderr}})
	}
	if err != nil {
		f.conn.Close()
	}
	return f, err
}

// noted reports when a reader has ended.
type noted struct {
	io.Reader
	once  sync.Once
	ended chan struct{}
}

// Read implements io.Reader.
func (n *noted) Read(p []byte) (int, error) {
	count, err := n.Reader.Read(p)
	if err != nil {
		n.once.Do(func() { close(n.ended) })
	}
	return count, err
}
