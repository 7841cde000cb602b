package connections

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// longestError bounds how much of a kubelet's error response is read.
const longestError = 64 << 10

// logs sends what a container has written and, if the client follows, what it writes from now on.
func (c *Connections) logs(q request) error {
	o, err := logOptions(q.r.URL.Query(), q.target.Name)
	if err != nil {
		return err
	}
	pod, err := c.pod(q)
	if err != nil {
		return err
	}
	container, err := containerOf(pod, o.Container)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		q.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	host, port, err := c.kubeletOf(q.ctx, pod.Spec.NodeName)
	if err != nil {
		return err
	}
	from := &url.URL{
		Scheme: "https", Host: net.JoinHostPort(host, port), Path: fmt.Sprintf("/containerLogs/%s/%s/%s", pod.Namespace, pod.Name, container),
		RawQuery: logQuery(o).Encode(),
	}
	transport := c.kubelet
	if o.InsecureSkipTLSVerifyBackend {
		transport = c.unverified
	}
	return sendLogs(q, transport, from, o.Follow)
}

func sendLogs(q request, transport http.RoundTripper, from *url.URL, follow bool) error {
	ask, err := http.NewRequestWithContext(q.ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return err
	}
	answer, err := transport.RoundTrip(ask)
	if refused, ok := refusedDial(err); ok {
		return refused
	}
	if err != nil {
		return failed("%v", &url.Error{Op: "Get", URL: from.String(), Err: err})
	}
	defer answer.Body.Close()
	if err := kubeletError(answer, schema.GroupResource{Resource: "pods/log"}, q.target.Name); err != nil {
		return err
	}
	if websocket.IsWebSocketUpgrade(q.r) {
		return socketLogs(q, answer.Body)
	}
	q.w.Header().Set("Content-Type", "text/plain")
	q.w.WriteHeader(http.StatusOK)
	if q.r.Method == http.MethodHead {
		return nil
	}
	to := io.Writer(q.w)
	if follow {
		to = newFlushWriter(q.w)
	}
	if _, err := io.Copy(to, answer.Body); err != nil && q.ctx.Err() == nil {
		panic(http.ErrAbortHandler) // the client then sees that the log was cut off
	}
	return nil
}

// kubeletError converts a kubelet's error response to an API error.
func kubeletError(answer *http.Response, of schema.GroupResource, name string) error {
	if answer.StatusCode >= http.StatusOK && answer.StatusCode <= http.StatusPartialContent {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, longestError))
	if err != nil {
		return failed("read the kubelet's answer: %v", err)
	}
	switch answer.StatusCode {
	case http.StatusInternalServerError:
		return apierrors.NewInternalError(fmt.Errorf("%s", text))
	case http.StatusBadRequest:
		return apierrors.NewBadRequest(string(text))
	}
	return apierrors.NewGenericServerResponse(answer.StatusCode, "", of, name, string(text), 0, false)
}

// flushWriter flushes each write.
type flushWriter struct {
	w       io.Writer
	control *http.ResponseController
}

// newFlushWriter sends the header at once, so that a client that follows a silent container sees that the request is
// served.
func newFlushWriter(w http.ResponseWriter) *flushWriter {
	f := &flushWriter{w: w, control: http.NewResponseController(w)}
	f.control.Flush()
	return f
}

// Write implements io.Writer.
func (f *flushWriter) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	if err != nil {
		return n, err
	}
	return n, f.control.Flush()
}
