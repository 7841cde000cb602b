package connections

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"

	"github.com/millrace/millrace/internal/server/apiserver"
)

// proxyNode forwards a request to a port of a node: "name", "name:port" or "scheme:name:port". Without a port, or with
// the kubelet's, it goes to the kubelet with the API server's client certificate.
func (c *Connections) proxyNode(q request) error {
	scheme, name, port, ok := utilnet.SplitSchemeNamePort(q.target.Name)
	if !ok {
		return apierrors.NewBadRequest("invalid node request " + strconv.Quote(q.target.Name))
	}
	if err := c.admit(q, &corev1.NodeProxyOptions{Path: backendPath(q)}); err != nil {
		return err
	}
	host, kubelet, err := c.kubeletOf(q.ctx, name)
	if err != nil {
		return err
	}
	if port == "" || port == kubelet {
		return c.proxy(q, c.kubelet, "https", net.JoinHostPort(host, kubelet))
	}
	if err := allowedHost(q.ctx, host); err != nil {
		return err
	}
	return c.proxy(q, c.backend, scheme, net.JoinHostPort(host, port))
}

// proxyPod forwards a request to a port of a pod: "name", "name:port" or "scheme:name:port". Without a port it goes to
// the first port in the pod's spec.
func (c *Connections) proxyPod(q request) error {
	scheme, name, port, ok := utilnet.SplitSchemeNamePort(q.target.Name)
	if !ok {
		return apierrors.NewBadRequest("invalid pod request " + strconv.Quote(q.target.Name))
	}
	if err := c.admit(q, &corev1.PodProxyOptions{Path: backendPath(q)}); err != nil {
		return err
	}
	pod, err := find[*corev1.Pod](q.ctx, c, "pods", q.target.Namespace, name)
	if err != nil {
		return err
	}
	if port == "" {
		port = firstPort(pod)
	}
	address := pod.Status.PodIP
	if err := allowed(address); err != nil {
		return err
	}
	host := address
	switch {
	case port != "":
		host = net.JoinHostPort(address, port)
	case strings.Contains(address, ":"):
		host = "[" + address + "]"
	}
	return c.proxy(q, c.backend, scheme, host)
}

func firstPort(pod *corev1.Pod) string {
	for _, container := range pod.Spec.Containers {
		if len(container.Ports) > 0 {
			return strconv.Itoa(int(container.Ports[0].ContainerPort))
		}
	}
	return ""
}

// proxyService forwards a request to one of the pods behind a service.
func (c *Connections) proxyService(q request) error {
	scheme, name, port, ok := utilnet.SplitSchemeNamePort(q.target.Name)
	if !ok {
		return apierrors.NewBadRequest("invalid service request " + strconv.Quote(q.target.Name))
	}
	if err := c.admit(q, &corev1.ServiceProxyOptions{Path: backendPath(q)}); err != nil {
		return err
	}
	host, err := c.endpoint(q, name, port)
	if err != nil {
		return err
	}
	return c.proxy(q, c.backend, scheme, host)
}

// backendPath returns the backend's part of the path: everything after "proxy".
func backendPath(q request) string {
	_, after := splitProxyPath(q)
	return after
}

// splitProxyPath divides a path into the server's part, up to "proxy", and the backend's.
func splitProxyPath(q request) (before, after string) {
	marker := "/" + q.target.Resource + "/" + q.target.Name + "/proxy"
	head, tail, _ := strings.Cut(q.r.URL.Path, marker)
	return head + marker, tail
}

// proxy forwards a request, upgraded or not.
func (c *Connections) proxy(q request, transport http.RoundTripper, scheme, host string) error {
	if scheme == "" {
		scheme = "http"
	}
	before, after := splitProxyPath(q)
	to := &url.URL{Scheme: scheme, Host: host, Path: after, RawQuery: q.r.URL.RawQuery}
	if upgrading(q.r) {
		return c.upgrade(q, transport, to)
	}
	if after == "" && (q.r.Method == http.MethodGet || q.r.Method == http.MethodHead) {
		// Relative links in the backend's pages are below this path. Browsers resolve them correctly only if it ends
		// with a slash.
		back := &url.URL{Path: q.r.URL.Path + "/", RawQuery: q.r.URL.RawQuery}
		q.w.Header().Set("Location", back.String())
		q.w.WriteHeader(http.StatusMovedPermanently)
		return nil
	}
	var failure error
	dialled := &dialRecorder{next: transport}
	p := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { rewrite(r, to) },
		// It rewrites links in the backend's pages, and redirects, to paths below the proxy. They are paths and not
		// URLs, because clients may use another host name for the server.
		Transport:      &proxy.Transport{PathPrepend: before, RoundTripper: dialled},
		ModifyResponse: func(r *http.Response) error { removeCORSHeaders(r.Header); return nil },
		ErrorHandler:   func(_ http.ResponseWriter, _ *http.Request, err error) { failure = err },
		ErrorLog:       slog.NewLogLogger(c.log.Handler(), slog.LevelDebug),
		FlushInterval:  -1,
	}
	p.ServeHTTP(q.w, q.r.WithContext(q.ctx))
	if dialled.refused != nil {
		return dialled.refused
	}
	if failure == nil {
		return nil
	}
	if known := apierrors.APIStatus(nil); !errors.As(failure, &known) {
		failure = failed("%v", failure)
	}
	if transport == c.backend { // else it is a kubelet, which should answer
		return &apiserver.BackendError{Err: failure}
	}
	return failure
}

// dialRecorder records that a connection was refused, and bounds HTML pages.
type dialRecorder struct {
	next    http.RoundTripper
	refused error
}

// RoundTrip implements http.RoundTripper.
func (d *dialRecorder) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := d.next.RoundTrip(r)
	if refused, ok := refusedDial(err); ok {
		d.refused = refused
	}
	if err != nil || r.Method == http.MethodHead {
		return answer, err
	}
	if err := boundPage(answer); err != nil {
		answer.Body.Close()
		return nil, err
	}
	return answer, nil
}

func rewrite(r *httputil.ProxyRequest, to *url.URL) {
	r.Out.URL, r.Out.Host = to, r.In.Host
	for _, name := range private {
		r.Out.Header.Del(name)
	}
	r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	r.SetXForwarded()
}

// removeCORSHeaders removes the backend's CORS headers: only the API server may decide which origins may read its
// responses.
func removeCORSHeaders(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "Access-Control-") {
			h.Del(name)
		}
	}
}
