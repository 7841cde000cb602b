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

// longestError bounds how much of a kubelet's refusal is read.
const longestError = 64 << 10

// logs sends what a container has written, and, if the caller follows, what it writes from now on.
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
	if err := refusal(answer, schema.GroupResource{Resource: "pods/log"}, q.target.Name); err != nil {
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
		to = newFlushing(q.w)
	}
	if _, err := io.Copy(to, answer.Body); err != nil && q.ctx.Err() == nil {
		panic(http.ErrAbortHandler) // so that the caller sees that this is not the end of the log
	}
	return nil
}

// refusal is what a kubelet's answer other than a success means.
func refusal(answer *http.Response, of schema.GroupResource, name string) error {
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

// flushing sends at once what is written.
type flushing struct {
	w       io.Writer
	control *http.ResponseController
}

// newFlushing sends the header too, so that a caller who follows a silent container knows that it is being served.
func newFlushing(w http.ResponseWriter) *flushing {
	f := &flushing{w: w, control: http.NewResponseController(w)}
	f.control.Flush()
	return f
}

// Write implements io.Writer.
func (f *flushing) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	if err != nil {
		return n, err
	}
	return n, f.control.Flush()
}
