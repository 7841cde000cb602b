package attacks

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/server/h2"
)

// Kind names a server to attack.
type Kind string

// The servers: package h2, and net/http's own HTTP/2.
const (
	Ours    Kind = "h2"
	NetHTTP Kind = "net/http"
)

// The paths of a target.
const (
	pathAnonymous    = "/"             // is answered with 401
	pathAuthenticate = "/authenticate" // authenticates the client
	pathSized        = "/sized/"       // is answered with that many bytes
	pathRead         = "/read"         // reads the body
	pathWait         = "/wait"         // waits until the client has disconnected
)

// refusal is the answer to an unauthenticated client.
const refusal = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`

// target serves, and counts its handlers.
type target struct {
	kind                   Kind
	streams                int // how many streams net/http allows on a connection
	started, running, most atomic.Int64
}

// unauthenticatedStreams is how many streams kube-apiserver allows on a connection, and package h2 to an
// unauthenticated client. authenticatedStreams is how many the control plane allows to other clients. Net/http cannot
// tell them apart, so it gets the limit of the attack.
const unauthenticatedStreams, authenticatedStreams = 100, 1000

// serve starts a server on loopback.
func (t *target) serve() (*httptest.Server, error) {
	web := httptest.NewUnstartedServer(t)
	web.Config.ReadHeaderTimeout, web.Config.IdleTimeout = 30*time.Second, 3*time.Minute
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	switch t.kind {
	case Ours:
		h2.New(h2.Options{MaxStreams: authenticatedStreams}).Serve(web.Config)
	case NetHTTP:
		web.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: t.streams, MaxReceiveBufferPerStream: 256 << 10, MaxReceiveBufferPerConnection: t.streams * 256 << 10}
	default:
		return nil, fmt.Errorf("there is no server %q", t.kind)
	}
	web.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	web.EnableHTTP2 = true
	web.StartTLS()
	return web, nil
}

// ServeHTTP implements http.Handler.
func (t *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t.started.Add(1)
	now := t.running.Add(1)
	for most := t.most.Load(); now > most && !t.most.CompareAndSwap(most, now); most = t.most.Load() {
	}
	defer t.running.Add(-1)
	switch {
	case r.URL.Path == pathAnonymous:
		t.refuse(w, r)
	case r.URL.Path == pathAuthenticate:
		h2.Authenticated(r.Context())
	case r.URL.Path == pathWait:
		<-r.Context().Done()
	case r.URL.Path == pathRead:
		_, _ = io.Copy(io.Discard, r.Body)
	case strings.HasPrefix(r.URL.Path, pathSized):
		n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, pathSized))
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(ready[:n])
	}
}

// ready are the bytes of all sized answers.
var ready = make([]byte, 1<<20)

// refuse answers an unauthenticated client with 401 and ends its connection, as kube-apiserver does.
func (t *target) refuse(w http.ResponseWriter, r *http.Request) {
	if t.kind == Ours {
		h2.Unauthenticated(r.Context())
	} else {
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = io.WriteString(w, refusal)
}
