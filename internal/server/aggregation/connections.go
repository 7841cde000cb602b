package aggregation

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"time"

	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/millrace/millrace/internal/server/services"
)

const (
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 90 * time.Second
	// A server that goes away without a word is noticed after these.
	pingAfter, pingTimeout = 30 * time.Second, 15 * time.Second
	idleForHost            = 25
)

// connections are those to one server. Requests that are upgraded need one each, of HTTP/1.1.
type connections struct {
	shared, upgraded *http.Transport
	// err says why the server cannot be spoken to at all.
	err error
	// described is what the server says of itself.
	described description
}

var errBundle = errors.New("unable to load root certificates: unable to parse bytes as PEM block")

// connect makes connections for an APIService; none is opened yet.
func (a *Aggregator) connect(s *v1.APIServiceSpec) *connections {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: s.Service.Name + "." + s.Service.Namespace + ".svc",
		InsecureSkipVerify: s.InsecureSkipTLSVerify, // the owner of the cluster says so
	}
	if a.o.Certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return a.o.Certificate(), nil }
	}
	c := &connections{}
	if len(s.CABundle) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(s.CABundle) {
			c.err = errBundle
		}
	}
	ref := s.Service.DeepCopy()
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) { return a.dial(ctx, network, ref) }
	c.shared = &http.Transport{
		DialContext: dial, TLSClientConfig: config, ForceAttemptHTTP2: true, TLSHandshakeTimeout: handshakeTimeout,
		IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: idleForHost, DisableCompression: true,
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
	c.upgraded = &http.Transport{
		DialContext: dial, TLSClientConfig: config.Clone(), TLSHandshakeTimeout: handshakeTimeout, DisableKeepAlives: true,
		DisableCompression: true, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	return c
}

func (c *connections) close() {
	c.shared.CloseIdleConnections()
	c.upgraded.CloseIdleConnections()
}

// dial reaches one of the endpoints; one that refuses is passed over for another.
func (a *Aggregator) dial(ctx context.Context, network string, ref *v1.ServiceReference) (net.Conn, error) {
	all, err := a.services.Resolve(ctx, services.Port{Namespace: ref.Namespace, Name: ref.Name, Number: *ref.Port})
	if err != nil {
		return nil, err
	}
	open := a.o.Dial
	if open == nil {
		open = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	var failed error
	for _, address := range all {
		conn, err := open(ctx, network, address)
		if err == nil {
			return conn, nil
		}
		failed = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}
