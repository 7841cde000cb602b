package connections

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// Options says how to find and call nodes. Registry is required.
type Options struct {
	Registry *registry.Registry
	// Certificate returns the client certificate that identifies the API server to kubelets.
	Certificate func() *tls.Certificate
	// Authorities must have signed the serving certificates of kubelets. If nil, they are not verified.
	Authorities *x509.CertPool
	// AddressTypes are the types of node addresses to use, in order of preference: by default InternalIP, ExternalIP,
	// Hostname, InternalDNS, ExternalDNS.
	AddressTypes []corev1.NodeAddressType
	// Timeout bounds how long connecting to a kubelet may take: by default 30 seconds, and 10 of them for TLS.
	Timeout time.Duration
	// Dial opens connections; nil means net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Own reports whether the API server itself listens at an address, which therefore belongs to no node or pod. If
	// nil, no address is checked.
	Own    func(netip.AddrPort) bool
	Logger *slog.Logger
}

// Connections holds the open streams of a server.
type Connections struct {
	o    Options
	log  *slog.Logger
	ends context.Context
	stop context.CancelCauseFunc

	kubelet, unverified, backend *http.Transport

	mu      sync.Mutex // guards closed, and orders running.Add before Close
	closed  bool
	running sync.WaitGroup
}

const (
	dialTimeout      = 30 * time.Second
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 90 * time.Second
)

var errEnding = errors.New("the server is shutting down")

// New returns Connections without any stream.
func New(o Options) *Connections {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if len(o.AddressTypes) == 0 {
		o.AddressTypes = []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP, corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeExternalDNS}
	}
	c := &Connections{o: o, log: o.Logger}
	c.ends, c.stop = context.WithCancelCause(context.Background())
	c.kubelet = c.kubeletTransport(o.Authorities)
	c.unverified = c.kubeletTransport(nil)
	c.backend = c.transport(&tls.Config{InsecureSkipVerify: true}, c.guarded(c.forPods, dialTimeout)) // pods have no names for which a certificate could be issued
	return c
}

func (c *Connections) kubeletTLS(authorities *x509.CertPool) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities, InsecureSkipVerify: authorities == nil}
	if certificate := c.o.Certificate; certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate(), nil }
	}
	return config
}

// kubeletTransport returns a transport to kubelets, whose serving certificates must be signed by the authorities.
func (c *Connections) kubeletTransport(authorities *x509.CertPool) *http.Transport {
	t := c.transport(c.kubeletTLS(authorities), c.guarded(c.forKubelets, cmp.Or(c.o.Timeout, dialTimeout)))
	t.TLSHandshakeTimeout = cmp.Or(c.o.Timeout, handshakeTimeout)
	return t
}

// transport returns a transport for HTTP/1.1 only, because only that can be upgraded. It does not decompress bodies.
func (c *Connections) transport(config *tls.Config, dial dialer) *http.Transport {
	return &http.Transport{
		DialContext: dial, TLSClientConfig: config, TLSHandshakeTimeout: handshakeTimeout,
		IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: 25, DisableCompression: true,
	}
}

// End ends all streams. Later requests are refused.
func (c *Connections) End() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop(errEnding)
}

// Close ends all streams and waits for them. If a client does not read, its stream ends only when the server closes its
// connection. So first call End, then close the servers, then call Close.
func (c *Connections) Close() {
	c.End()
	c.running.Wait()
	for _, t := range []*http.Transport{c.kubelet, c.unverified, c.backend} {
		t.CloseIdleConnections()
	}
}

// enter begins a stream. Its context ends with the client's request and with the server.
func (c *Connections) enter(parent context.Context) (ctx context.Context, leave func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, apierrors.NewServiceUnavailable(errEnding.Error())
	}
	c.running.Add(1)
	ctx, cancel := context.WithCancelCause(parent)
	unhook := context.AfterFunc(c.ends, func() { cancel(errEnding) })
	return ctx, func() {
		unhook()
		cancel(nil)
		c.running.Done()
	}, nil
}

// All returns the connections by the names of their subresources.
func (c *Connections) All() map[string]apiserver.Connection {
	return map[string]apiserver.Connection{
		"pods/log":         &connection{c, c.logs},
		"pods/exec":        &connection{c, c.exec},
		"pods/attach":      &connection{c, c.attach},
		"pods/portforward": &connection{c, c.portForward},
		"pods/proxy":       &connection{c, c.proxyPod},
		"nodes/proxy":      &connection{c, c.proxyNode},
		"services/proxy":   &connection{c, c.proxyService},
	}
}

// connection is the handler of one subresource.
type connection struct {
	of    *Connections
	serve func(request) error
}

// request is one request for a connection.
type request struct {
	ctx    context.Context
	w      http.ResponseWriter
	r      *http.Request
	target apiserver.Target
}

// Connect implements apiserver.Connection.
func (c *connection) Connect(w http.ResponseWriter, r *http.Request, t apiserver.Target) error {
	if (t.Namespace == "") != (t.Resource == "nodes") {
		return notFound()
	}
	ctx, leave, err := c.of.enter(r.Context())
	if err != nil {
		return err
	}
	defer leave()
	user := auth.UserFrom(ctx)
	ctx = resource.WithCall(ctx, resource.Call{User: user.Name, UID: user.UID, Groups: user.Groups, Extra: user.Extra, Face: t.GroupVersion})
	return c.serve(request{ctx: ctx, w: w, r: r, target: t})
}

// admit runs the admission steps for a connect request.
func (c *Connections) admit(q request, options runtime.Object) error {
	kind, ok := c.o.Registry.Catalogue.Kind(schema.GroupResource{Group: q.target.Group, Resource: q.target.Resource})
	if !ok {
		return fmt.Errorf("%s are not served", q.target.Resource)
	}
	return c.o.Registry.Admit(q.ctx, &registry.Change{
		Operation: registry.Connect, Kind: kind, View: q.target.View, Namespace: q.target.Namespace, Name: q.target.Name,
		Body: options, BodyKind: corev1.SchemeGroupVersion.WithKind(reflect.TypeOf(options).Elem().Name()),
	})
}

// find reads the newest state of an object of the core group.
func find[T resource.Object](ctx context.Context, c *Connections, name, namespace, object string) (T, error) {
	var none T
	kind, ok := c.o.Registry.Catalogue.Kind(schema.GroupResource{Resource: name})
	if !ok {
		return none, fmt.Errorf("%s are not served", name)
	}
	storage, err := c.o.Registry.Storage(kind)
	if err != nil {
		return none, err
	}
	o, err := storage.Get(ctx, namespace, object, registry.Freshness{})
	if err != nil {
		return none, err
	}
	decoded, err := kind.Decode(ctx, o.Value(), o.Revision.String())
	if err != nil {
		return none, err
	}
	return decoded.(T), nil
}

func notFound() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{},
	}}
}

// failed returns an error whose text Kubernetes shows unchanged.
func failed(format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: fmt.Sprintf(format, args...),
	}}
}
