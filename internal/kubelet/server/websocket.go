package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/exec"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// The WebSocket subprotocols for streams. From v4 on the result is sent as a Status. From v5 on the end of the input is
// sent too.
var webSockets = []string{"v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io", "channel.k8s.io", "base64.channel.k8s.io", ""}

// serveWebSocket serves a session over a WebSocket. The streaming library does this too, but its WebSockets cannot
// signal the end of the input.
func serveWebSocket(w http.ResponseWriter, r *http.Request, o *remotecommand.Options, do func(context.Context, Streams) error) error {
	conn := wsstream.NewConn(channelsFor(o))
	conn.SetIdleTimeout(idleTime)
	protocol, channels, err := conn.Open(w, r)
	if err != nil {
		return fmt.Errorf("open the WebSocket: %w", err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	// An empty message tells the client that it is connected.
	for _, c := range []struct {
		wanted bool
		number int
	}{{o.Stdout, remotecommand.StreamStdOut}, {o.Stderr, remotecommand.StreamStdErr}, {true, remotecommand.StreamErr}} {
		if c.wanted {
			if _, err := channels[c.number].Write(nil); err != nil {
				return err
			}
			break
		}
	}
	s := Streams{TTY: o.TTY}
	if o.Stdin {
		s.In = channels[remotecommand.StreamStdIn]
	}
	if o.Stdout {
		s.Out = channels[remotecommand.StreamStdOut]
	}
	if o.Stderr {
		s.Err = channels[remotecommand.StreamStdErr]
	}
	var resizing sync.WaitGroup
	if o.TTY {
		sizes := make(chan remotecommand.TerminalSize)
		s.Resize = sizes
		resizing.Go(func() { resize(ctx, channels[remotecommand.StreamResize], sizes) })
	}
	err = do(ctx, s)
	tellEnd(channels[remotecommand.StreamErr], protocol, err)
	cancel()
	conn.Close()
	resizing.Wait()
	return nil
}

// channelsFor returns the direction of each channel.
func channelsFor(o *remotecommand.Options) map[string]wsstream.ChannelProtocolConfig {
	pick := func(wanted bool, kind wsstream.ChannelType) wsstream.ChannelType {
		if wanted {
			return kind
		}
		return wsstream.IgnoreChannel
	}
	channels := []wsstream.ChannelType{
		remotecommand.StreamStdIn:  pick(o.Stdin, wsstream.ReadChannel),
		remotecommand.StreamStdOut: pick(o.Stdout, wsstream.WriteChannel),
		remotecommand.StreamStdErr: pick(o.Stderr, wsstream.WriteChannel),
		remotecommand.StreamErr:    wsstream.WriteChannel,
		remotecommand.StreamResize: wsstream.ReadChannel,
	}
	all := map[string]wsstream.ChannelProtocolConfig{}
	for _, name := range webSockets {
		all[name] = wsstream.ChannelProtocolConfig{Binary: name != "v4.base64.channel.k8s.io" && name != "base64.channel.k8s.io", Channels: channels}
	}
	return all
}

// resize reads terminal sizes until there are no more.
func resize(ctx context.Context, from io.Reader, sizes chan<- remotecommand.TerminalSize) {
	defer close(sizes)
	for decoder := json.NewDecoder(from); ; {
		var size remotecommand.TerminalSize
		if decoder.Decode(&size) != nil {
			return
		}
		select {
		case sizes <- size:
		case <-ctx.Done():
			return
		}
	}
}

// tellEnd sends the result of a command. A write error means that the client has disconnected.
func tellEnd(to io.Writer, protocol string, err error) {
	switch protocol {
	case "v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io":
		text, failed := json.Marshal(statusOf(err))
		if failed == nil {
			_, _ = to.Write(text)
		}
	default:
		if err != nil {
			_, _ = io.WriteString(to, err.Error())
		}
	}
}

func statusOf(err error) *metav1.Status {
	var exit exec.ExitError
	switch {
	case err == nil:
		return &metav1.Status{Status: metav1.StatusSuccess}
	case errors.As(err, &exit) && exit.Exited():
		return &metav1.Status{
			Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Message: fmt.Sprintf("command terminated with non-zero exit code: %v", exit),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(exit.ExitStatus())}}},
		}
	}
	return &metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError,
		Message: "Internal error occurred: " + err.Error(),
	}
}
