package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/services"
)

// MaxAnswer is how long an answer may be, in bytes.
const MaxAnswer = 3 << 20

// Dial opens a connection.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Options say what a client stands on.
type Options struct {
	// Registry is where services and their endpoints are looked up. Without it only URLs can be called.
	Registry *registry.Registry
	// Dial opens connections, to the addresses of endpoints or to the hosts of URLs; nil goes to the network.
	Dial Dial
}

// Client calls webhooks. It can be used by many goroutines.
type Client struct {
	services *services.Resolver
	dial     Dial

	ctx   context.Context // ends with the client
	end   context.CancelCauseFunc
	calls sync.WaitGroup // requests and attempts to connect; Add happens under mu, while the client is open

	mu         sync.Mutex // guards what follows
	closed     bool
	transports map[trust]*transport
	uses       int64 // counts up, to find the transport that was not used for the longest time
	open       map[*conn]struct{}
}

// ErrClosed says that the client is closed.
var ErrClosed = errors.New("the client of webhooks is closed")

// New makes a client. It opens nothing before the first call.
func New(o Options) *Client {
	c := &Client{services: services.NewResolver(o.Registry), dial: o.Dial, transports: map[trust]*transport{}, open: map[*conn]struct{}{}}
	if c.dial == nil {
		c.dial = (&net.Dialer{}).DialContext
	}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	return c
}

// Close ends all calls and closes all connections.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.end(ErrClosed)
	c.calls.Wait()
	c.mu.Lock()
	all := make([]*conn, 0, len(c.open))
	for n := range c.open {
		all = append(all, n)
	}
	transports := c.transports
	c.transports = nil
	c.mu.Unlock()
	for _, t := range transports {
		t.CloseIdleConnections()
	}
	for _, n := range all {
		n.Close()
	}
}

// enter counts a goroutine that Close waits for.
func (c *Client) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.calls.Add(1)
	return nil
}

// Post sends a JSON document and returns the answer. An answer that is no success is an error, which is the server's
// own metav1.Status if it sent one.
func (c *Client) Post(ctx context.Context, t Target, body []byte) ([]byte, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.calls.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })()
	if t.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, t.Timeout)
		defer stop()
	}
	u, err := t.address()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, */*")
	request.Header.Set("User-Agent", "kube-apiserver-admission")
	web, err := c.web(&t)
	if err != nil {
		return nil, err
	}
	answer, err := web.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := read(answer)
	if ended := ctx.Err(); ended != nil {
		// A server that sees the end of the call ends its answer, which may then look complete.
		return nil, &url.Error{Op: "Post", URL: u.String(), Err: ended}
	}
	return text, err
}

// web is an HTTP client that reaches a target and follows no redirects.
func (c *Client) web(t *Target) (*http.Client, error) {
	through, err := c.transport(t)
	if err != nil {
		return nil, err
	}
	w := &http.Client{Transport: through, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if t.Service != nil {
		w.Transport = &byEndpoint{through, c.services, t.Service}
	}
	if u := t.user(); u != nil {
		w.Transport, err = rest.HTTPWrappersForConfig(u.config, w.Transport)
	}
	return w, err
}

// read takes an answer in, up to the bound.
func read(answer *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(answer.Body, MaxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("unexpected error when reading response body. Please retry. Original error: %w", err)
	case len(body) > MaxAnswer:
		return nil, fmt.Errorf("the answer is longer than %d bytes", MaxAnswer)
	case answer.StatusCode < http.StatusOK || answer.StatusCode > http.StatusPartialContent:
		return nil, failure(answer, body)
	}
	return body, nil
}

// longestText bounds what is repeated of an answer that is no Status.
const longestText = 2048

// failure is the error of an answer that is no success, in the words of Kubernetes' clients.
func failure(answer *http.Response, body []byte) error {
	status := &metav1.Status{}
	if json.Unmarshal(body, status) == nil && status.Kind == "Status" && status.Status == metav1.StatusFailure {
		return apierrors.FromObject(status)
	}
	text := "unknown"
	media, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil || strings.HasPrefix(media, "text/") {
		text = strings.TrimSpace(string(body[:min(len(body), longestText)]))
	}
	return apierrors.NewGenericServerResponse(answer.StatusCode, http.MethodPost, resource.NoResource, "", text, 0, true)
}
