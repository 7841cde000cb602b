package connections

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// private are headers for the API server only.
var private = []string{"Authorization", "Proxy-Authorization"}

// upgrade forwards a request to upgrade the connection. If the backend agrees, it copies in both directions.
func (c *Connections) upgrade(q request, transport http.RoundTripper, to *url.URL) error {
	answer, err := dial(q, transport, to, q.r.Method, q.r.Header.Clone())
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return sendRefusal(q.w, answer)
	}
	backend := answer.Body.(io.ReadWriteCloser) // net/http guarantees this for status 101
	conn, buffered, err := http.NewResponseController(q.w).Hijack()
	if err != nil {
		return failed("this connection cannot be upgraded: %v; use HTTP/1.1", err)
	}
	defer conn.Close()
	answer.Body = nil // only the head is written
	if answer.Write(conn) != nil {
		return nil
	}
	copyBoth(q.ctx, &hijacked{Conn: conn, r: buffered.Reader}, backend)
	return nil
}

// dial sends an upgrade request. It takes ownership of header.
func dial(q request, transport http.RoundTripper, to *url.URL, method string, header http.Header) (*http.Response, error) {
	ask, err := http.NewRequestWithContext(q.ctx, method, to.String(), nil)
	if err != nil {
		return nil, err
	}
	for _, name := range private {
		header.Del(name)
	}
	header.Del("Content-Length")
	header.Set("Connection", "Upgrade")
	ask.Header = header
	answer, err := transport.RoundTrip(ask)
	if refused, ok := refusedDial(err); ok {
		return nil, refused
	}
	if err != nil {
		return nil, failed("error dialing backend: %v", err)
	}
	return answer, nil
}

// sendRefusal passes on an error response; a successful one without an upgrade is an error.
func sendRefusal(w http.ResponseWriter, answer *http.Response) error {
	if answer.StatusCode < http.StatusBadRequest {
		return failed("invalid upgrade response: status code %d", answer.StatusCode)
	}
	if answer.StatusCode == http.StatusUnauthorized { // it concerns the server's credentials, not the client's
		return apierrors.NewInternalError(errUnknownToKubelet)
	}
	for _, name := range []string{"Content-Type", "Retry-After"} {
		if v := answer.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.WriteHeader(answer.StatusCode)
	io.Copy(w, io.LimitReader(answer.Body, longestError))
	return nil
}

// hijacked first returns the bytes that the server had already read from the connection.
type hijacked struct {
	net.Conn
	r *bufio.Reader
}

// Read implements io.Reader.
func (h *hijacked) Read(b []byte) (int, error) { return h.r.Read(b) }

// copyBoth copies in both directions until one end closes, or the context ends. Then it closes both.
func copyBoth(ctx context.Context, a, b io.ReadWriteCloser) {
	end := sync.OnceFunc(func() {
		a.Close()
		b.Close()
	})
	defer context.AfterFunc(ctx, end)()
	var both sync.WaitGroup
	both.Go(func() { io.Copy(a, b); end() })
	both.Go(func() { io.Copy(b, a); end() })
	both.Wait()
}
