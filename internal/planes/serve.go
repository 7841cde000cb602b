package planes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/server/auth"
)

// Prefix is what the paths of planes begin with.
const Prefix = "/clusters/"

// Asks reports whether a path is in a plane.
func Asks(path string) bool { return strings.HasPrefix(path, Prefix) }

// ServeHTTP passes a request on to the plane that its path names.
func (p *Planes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, Prefix), "/")
	one, err := p.find(r.Context(), name)
	if err == nil {
		err = one.serve(w, r, "/"+path)
	}
	if err != nil {
		answerError(w, statusOf(name, err))
	}
}

// serve answers a request, whose path in the plane is given.
func (p *plane) serve(w http.ResponseWriter, r *http.Request, path string) error {
	if p.sleeps() && !mayWake(p.directory, r) {
		return apierrors.NewUnauthorized("Unauthorized")
	}
	c, err := p.acquire(r.Context())
	if err != nil {
		return err
	}
	defer p.release()
	// The user that the host has found, if any, is nobody here.
	inside := r.WithContext(auth.WithUser(r.Context(), auth.User{}))
	inside.URL = &url.URL{Path: path, RawQuery: r.URL.RawQuery}
	p.asked(c, inside)
	c.ServeHTTP(w, inside)
	p.asked(c, inside) // a watch may have taken long
	return nil
}

// asked notes that a request keeps the plane awake, if somebody has sent it whom the plane knows.
func (p *plane) asked(c Cluster, r *http.Request) {
	if now := time.Now(); !p.fresh(now) && c.Knows(r) {
		p.use(now)
	}
}

// statusOf returns the error of the API for one of this package.
func statusOf(name string, err error) *apierrors.StatusError {
	var status *apierrors.StatusError
	switch {
	case errors.As(err, &status):
		return status
	case errors.Is(err, errNone), errors.Is(err, errGone):
		return apierrors.NewNotFound(GVR.GroupResource(), name)
	case errors.Is(err, errBusy):
		return apierrors.NewTooManyRequests(err.Error(), 1)
	}
	return apierrors.NewServiceUnavailable(fmt.Sprintf("%s %q: %v", GVR.GroupResource(), name, err))
}

func answerError(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	w.Header().Set("Content-Type", "application/json")
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(status.Details.RetryAfterSeconds))
	}
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status) // the client has gone
}

// Config returns a configuration for the administrator of a plane, whose requests go there without a connection. The
// plane need not be awake.
func (p *Planes) Config(name string) *rest.Config {
	return &rest.Config{Host: "https://in.process", Transport: &within{planes: p, name: name}, QPS: -1, WarningHandler: rest.NoWarnings{}}
}

// within sends requests to a plane in this process.
type within struct {
	planes *Planes
	name   string
}

// RoundTrip implements http.RoundTripper.
func (t *within) RoundTrip(r *http.Request) (*http.Response, error) {
	one, err := t.planes.find(r.Context(), t.name)
	if err != nil {
		return nil, fmt.Errorf("control plane %q: %w", t.name, err)
	}
	c, err := one.acquire(r.Context())
	if err != nil {
		return nil, fmt.Errorf("control plane %q: %w", t.name, err)
	}
	one.use(time.Now())
	answer, err := c.Transport().RoundTrip(r)
	if err != nil {
		one.release()
		return nil, err
	}
	answer.Body = &body{ReadCloser: answer.Body, close: sync.OnceFunc(func() {
		one.use(time.Now())
		one.release()
	})}
	return answer, nil
}

// body is that of an answer, during which a plane does not sleep.
type body struct {
	io.ReadCloser
	close func()
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.close()
	return b.ReadCloser.Close()
}

// URL returns where clients reach a plane, or "" if there is no port.
func (p *Planes) URL(name string) string {
	if host, _ := p.o.Host(); host != "" {
		return host + Prefix + name
	}
	return ""
}
