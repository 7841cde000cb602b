package cri

import (
	"context"
	"io"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/remotecommand"

	"github.com/millrace/millrace/kubelet/container"
)

// attachApart connects a container's errors by themselves, before its input and output.
//
// Of a container whose input another may follow, containerd cuts off all that was attached together with an input as soon
// as one output ends. When the container ends, and its errors happen to end first, what it wrote last would be lost.
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
	reading.Go(func() { _, _ = io.Copy(io.Discard, told.end) }) // the output's end says the same
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
	case <-in.ended: // who was attached has left, and the container may go on
	case <-ctx.Done():
	}
	return ctx.Err()
}

// failures are what a container writes as errors, and how that ends.
type failures struct {
	conn      httpstream.Connection
	text, end io.Reader
}

// failures attaches to a container's errors. Once it has returned none is lost.
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

// noted tells when a reader has ended.
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
