package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/millrace/millrace/internal/server/apiserver/internal/answer"
	"github.com/millrace/millrace/internal/server/apiserver/internal/body"
	"github.com/millrace/millrace/internal/server/apiserver/internal/discovery"
	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/internal/server/apiserver/internal/status"
	"github.com/millrace/millrace/internal/server/audit"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/fairness"
	"github.com/millrace/millrace/internal/server/registry"
)

// Options are the parts of a server.
type Options struct {
	Registry *registry.Registry
	// Authenticate identifies the user of a request; Authorize decides what the user may do. Both are required.
	Authenticate auth.Authenticator
	Authorize    auth.Authorizer
	// Reach finds out in which namespaces users may do something by their roles; nil if there are no roles.
	Reach auth.Reacher
	// Audit records requests; nil records nothing.
	Audit *audit.Log
	// Apply implements server-side apply.
	Apply Applier
	// Actions implement the POST to a subresource, or to a kind that is not stored: "pods/binding",
	// "tokenreviews.authentication.k8s.io".
	Actions map[string]Action
	// Live makes the objects of kinds that can only be read and are not stored: "componentstatuses".
	Live map[string]Live
	// Connections are the subresources that stream: "pods/log".
	Connections map[string]Connection
	// Extra serves other paths that are not resources: "/openapi/v2".
	Extra map[string]http.Handler
	// Delegate serves group versions that are not served here; nil if there are none.
	Delegate Delegate
	// Past answers requests for the past; nil if there are none.
	Past Past
	// Replays says that watches read the store, and not the watch cache, which stands still.
	Replays bool
	// CatchUp waits until all kinds are known that were defined before the call; nil if kinds are never added. It is
	// called before an authorized request is answered with 404, and before discovery is answered.
	CatchUp func(context.Context) error
	// Settle waits until the changes of kinds that this server has acknowledged are in use; nil if kinds never change.
	// It is called before each authorized request for a kind that may change.
	Settle func(context.Context) error
	// Unreadable returns why definitions of kinds cannot be read, by their names; nil if there are no definitions.
	Unreadable func() map[string]error
	// Checks are the checks of /livez, /readyz and /healthz.
	Checks []Check
	// Queued is told when a request has come to where it waits for its turn, with the writer that the server was called
	// with; nil if nobody wants to know.
	Queued func(http.ResponseWriter)
	// Fairness gives seats to requests. Without it MaxInFlight and MaxMutatingInFlight limit all users together.
	Fairness *fairness.Dispatcher
	// Metrics counts requests and events of watches; nil counts nothing.
	Metrics Metrics
	Version version.Info
	// Address is the server's address in discovery documents.
	Address string
	// NoProfiling leaves out the profiles of this process below /debug/pprof.
	NoProfiling bool
	// Privileged allows privileged containers.
	Privileged bool

	// MaxBody bounds request bodies, 3 MiB by default. MaxInFlight and MaxMutatingInFlight bound concurrent requests
	// without watches.
	MaxBody             int64
	MaxInFlight         int
	MaxMutatingInFlight int
	// RequestTimeout ends requests that are not long-running. MinRequestTimeout is the shortest time after which a
	// watch ends if the client sets no timeout.
	RequestTimeout    time.Duration
	MinRequestTimeout time.Duration
	// BookmarkPeriod is the time between bookmarks, for watches that want them.
	BookmarkPeriod time.Duration

	Now    func() time.Time
	Logger *slog.Logger
}

// Past answers requests for the past.
type Past interface {
	// Handler returns what a path asks for without what leads to the past, and what answers the request once it is
	// authorized for that; nil for other paths. If it returns an error, it has sent nothing, and the error is sent.
	Handler(path string) (rest string, answer func(http.ResponseWriter, *http.Request) error)
	// End ends all streams.
	End()
}

// Delegate finds the handlers of group versions that other servers serve.
type Delegate interface {
	// Handler returns the handler of a group version; nil if it is served here. The requests are authorized, and their
	// context holds the user.
	Handler(schema.GroupVersion) http.Handler
	// Groups returns all delegated group versions for discovery, and a number that changes when they do.
	Groups() (version int, all []DelegatedGroup)
}

// DelegatedGroup is a group version that another server serves, as discovery shows it.
type DelegatedGroup = discovery.Group

// Action implements the POST to a subresource. The object is sent with the code.
type Action interface {
	Act(ctx context.Context, c *ActionCall) (answer runtime.Object, code int, err error)
}

// Completer is an Action that adds to a body what it lacks, before admission sees it.
type Completer interface {
	Complete(body runtime.Object, name string)
}

// ActionFunc is an Action.
type ActionFunc func(ctx context.Context, c *ActionCall) (runtime.Object, int, error)

// Act calls f.
func (f ActionFunc) Act(ctx context.Context, c *ActionCall) (runtime.Object, int, error) {
	return f(ctx, c)
}

// ActionCall is one call of an action.
type ActionCall struct {
	Registry        *registry.Registry
	Storage         *registry.Storage
	Namespace, Name string
	Body            runtime.Object
	Options         registry.WriteOptions
	User            auth.User
}

// Connection serves a subresource that streams, with the methods of its action. If it returns an error, it has sent
// nothing, and the error is sent.
type Connection interface {
	Connect(w http.ResponseWriter, r *http.Request, t Target) error
}

// Metrics returns the counters of requests.
type Metrics interface {
	// Meter returns the counter of the requests with these labels. It is called for each request.
	Meter(l Labels) Meter
}

// Meter counts the requests that have all labels in common.
type Meter interface {
	Started()
	// Finished is told how long the request took, and how long of that it waited for its turn.
	Finished(code int, bytes int64, took, waited time.Duration)
	// Sent counts an event of a watch. Initial counts the objects with which a watch begins.
	Sent(bytes int)
	Initial(events int)
}

// Labels are the labels of a request in metrics. Their number is bounded, whatever clients send.
type Labels struct {
	Verb, Group, Version, Resource, Subresource, Scope string
	DryRun, LongRunning                                bool
}

// Server serves the API. It starts no goroutine of its own; End ends the open streams.
type Server struct {
	o    Options
	log  *slog.Logger
	ends context.Context
	stop context.CancelCauseFunc

	bodies            body.Reader
	handle            handler
	reading, changing chan struct{}
	identifying       chan struct{} // holds a token for each request whose bearer token is being checked
	discovery         *discovery.Documents
	sockets           sync.WaitGroup
	serving           atomic.Int64
	flights           flights
}

// New makes a server.
func New(o Options) *Server {
	setDefault(&o.MaxBody, 3<<20)
	setDefault(&o.MaxInFlight, 400)
	setDefault(&o.MaxMutatingInFlight, 200)
	setDefault(&o.RequestTimeout, time.Minute)
	setDefault(&o.MinRequestTimeout, 30*time.Minute)
	setDefault(&o.BookmarkPeriod, time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
	s := &Server{
		o: o, log: o.Logger, handle: chain(respond, stages...),
		bodies:    body.Reader{MaxBytes: o.MaxBody, Timeout: o.RequestTimeout},
		discovery: &discovery.Documents{Catalogue: o.Registry.Catalogue, Address: o.Address},
		reading:   make(chan struct{}, o.MaxInFlight), changing: make(chan struct{}, o.MaxMutatingInFlight),
		identifying: make(chan struct{}, o.MaxInFlight+o.MaxMutatingInFlight),
	}
	if o.Delegate != nil {
		s.discovery.Others = o.Delegate.Groups
	}
	s.discovery.Unreadable = o.Unreadable
	s.ends, s.stop = context.WithCancelCause(context.Background())
	return s
}

func setDefault[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// End ends all open streams. Later requests are still answered.
func (s *Server) End() {
	s.stop(errEnding)
	if s.o.Past != nil {
		s.o.Past.End()
	}
}

// Wait waits until all WebSockets have ended: an http.Server does not wait for hijacked connections.
func (s *Server) Wait() { s.sockets.Wait() }

var errEnding = fmt.Errorf("the server is shutting down")

// Idle waits until no request is being served, or the context ends.
func (s *Server) Idle(ctx context.Context) {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for s.serving.Load() > 0 {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serve(w, r, s.handle) }

// serve answers one request with a handler.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, handle handler) {
	s.serving.Add(1)
	defer s.serving.Add(-1)
	c := s.newCall(w, r)
	c.measure()
	defer c.finish()
	defer c.endAudit()
	defer s.recover(c.Writer, r)
	c.boundAnswer()
	err := handle(c)
	if c.returned = true; err != nil {
		c.failure = err
		s.fail(c.Writer, c.Request, err)
	}
}

// recover answers for a handler that panicked.
func (s *Server) recover(w http.ResponseWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	s.log.Error("panic while serving", "method", r.Method, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
	if response, ok := w.(*answer.Response); ok && response.Code != 0 {
		panic(http.ErrAbortHandler) // An error in the middle of a response would be taken for a part of it.
	}
	s.fail(w, r, apierrors.NewInternalError(fmt.Errorf("this request caused apiserver to panic. Look in the logs for details")))
}

// InFlight returns how many requests are being served, without watches.
func (s *Server) InFlight() (reading, changing int) {
	return int(s.flights.reading.Load()), int(s.flights.changing.Load())
}

type noMetrics struct{}

func (noMetrics) Meter(Labels) Meter                                { return noMetrics{} }
func (noMetrics) Started()                                          {}
func (noMetrics) Finished(int, int64, time.Duration, time.Duration) {}
func (noMetrics) Sent(int)                                          {}
func (noMetrics) Initial(int)                                       {}

// BackendError is an error of the pod or service that a request was handed on to, such as that nothing listens there
// yet. The client is told, and it is no trouble of the server.
type BackendError struct{ Err error }

// Error implements error.
func (e *BackendError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *BackendError) Unwrap() error { return e.Err }

// fail sends an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := status.Of(err)
	if status.Code >= http.StatusInternalServerError && r.Context().Err() == nil {
		level := slog.LevelWarn
		if backend := (*BackendError)(nil); errors.As(err, &backend) {
			level = slog.LevelDebug
		}
		s.log.Log(r.Context(), level, "request failed", "method", r.Method, "path", r.URL.Path, "code", status.Code, "error", err)
	}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	f, accepting := negotiate.Choose(r, negotiate.Offer{})
	if accepting != nil {
		f.Media = negotiate.JSON
	}
	answer.WriteStatus(w, f, status)
}

// failed sends an error, if there is one.
func (s *Server) failed(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
		s.fail(w, r, err)
	}
}
