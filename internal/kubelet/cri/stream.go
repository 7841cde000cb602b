package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// Stream runs a command in a container, with its input and output connected. If the command fails, the error has its
// exit status.
func (r *Runtime) Stream(ctx context.Context, id string, command []string, s container.Streams) error {
	answer, err := r.runtime.Exec(ctx, &runtimeapi.ExecRequest{
		ContainerId: plain(id), Cmd: command, Tty: s.TTY, Stdin: s.In != nil, Stdout: s.Out != nil, Stderr: s.Err != nil && !s.TTY,
	})
	if err != nil {
		return err
	}
	return connect(ctx, answer.Url, s)
}

// Attach connects streams with a container's input and output.
func (r *Runtime) Attach(ctx context.Context, id string, s container.Streams) error {
	if s.In != nil && s.Out != nil && s.Err != nil && !s.TTY && !s.Once {
		return r.attachApart(ctx, id, s)
	}
	address, err := r.attachment(ctx, id, s)
	if err != nil {
		return err
	}
	return connect(ctx, address, s)
}

// attachment returns the URL at the runtime's streaming server.
func (r *Runtime) attachment(ctx context.Context, id string, s container.Streams) (address string, err error) {
	answer, err := r.runtime.Attach(ctx, &runtimeapi.AttachRequest{
		ContainerId: plain(id), Tty: s.TTY, Stdin: s.In != nil, Stdout: s.Out != nil, Stderr: s.Err != nil && !s.TTY,
	})
	return answer.GetUrl(), err
}

// connect transfers streams to and from the runtime's streaming server.
func connect(ctx context.Context, address string, s container.Streams) error {
	target, err := url.Parse(address)
	if err != nil {
		return err
	}
	executor, err := remotecommand.NewSPDYExecutor(&rest.Config{Host: target.Host}, http.MethodPost, target)
	if err != nil {
		return err
	}
	stderr := s.Err
	if s.TTY {
		stderr = nil
	}
	return executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: s.In, Stdout: s.Out, Stderr: stderr, Tty: s.TTY, TerminalSizeQueue: s.Resize})
}

// Forward connects a stream with a port of a sandbox.
func (r *Runtime) Forward(ctx context.Context, sandbox string, port int32, stream io.ReadWriteCloser) error {
	answer, err := r.runtime.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: sandbox, Port: []int32{port}})
	if err != nil {
		return err
	}
	conn, err := dialStreams(answer.Url, portforward.PortForwardProtocolV1Name)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	return exchange(conn, port, stream)
}

// dialStreams opens a connection to the runtime's streaming server.
func dialStreams(address, protocol string) (httpstream.Connection, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(&rest.Config{Host: target.Host})
	if err != nil {
		return nil, err
	}
	conn, _, err := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target).Dial(protocol)
	if err != nil {
		return nil, fmt.Errorf("reach the runtime's streaming server: %w", err)
	}
	return conn, nil
}

// exchange copies between a stream and a port, both ways, until both have ended.
func exchange(conn httpstream.Connection, port int32, stream io.ReadWriteCloser) error {
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(int(port)))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := conn.CreateStream(headers)
	if err != nil {
		return err
	}
	failures.Close() // nothing is ever written to it
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := conn.CreateStream(headers)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() {
		text, _ := io.ReadAll(failures)
		if len(text) > 0 {
			failed <- errors.New(string(text))
			return
		}
		failed <- nil
	}()
	go func() {
		_, _ = io.Copy(data, stream)
		data.Close()
	}()
	_, err = io.Copy(stream, data)
	stream.Close()
	data.Reset()
	conn.Close()
	return errors.Join(<-failed, err)
}
