package apiserver

import (
	"context"
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

	"github.com/millrace/millrace/server/apiserver/internal/answer"
	"github.com/millrace/millrace/server/apiserver/internal/body"
	"github.com/millrace/millrace/server/apiserver/internal/discovery"
	"github.com/millrace/millrace/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/server/apiserver/internal/status"
	"github.com/millrace/millrace/server/audit"
	"github.com/millrace/millrace/server/auth"
	"github.com/millrace/millrace/server/fairness"
	"github.com/millrace/millrace/server/registry"
)

// Options are what a server is made of.
type Options struct {
	Registry *registry.Registry
	// Authenticate finds out who is calling; Authorize whether they may. Both are required.
	Authenticate auth.Authenticator
	Authorize    auth.Authorizer
	// Audit writes down what is asked for; nil writes nothing.
	Audit *audit.Log
	// Apply makes server-side apply work.
	Apply Applier
	// Actions are what posting to a subresource, or to a kind that is not stored, does: "pods/binding",
	// "tokenreviews.authentication.k8s.io".
	Actions map[string]Action
	// Connections are subresources that stream: "pods/log".
	Connections map[string]Connection
	// Extra serves further paths that are not resources: "/openapi/v2".
	Extra map[string]http.Handler
	// Delegate answers for group versions that are not served here; nil if there are none.
	Delegate Delegate
	// CatchUp makes known all kinds that were defined before it is called; nil if kinds are never defined. It is asked before
	// a path is said not to exist, and before anybody is told which kinds there are.
	CatchUp func(context.Context) error
	// Checks make up /livez, /readyz and /healthz.
	Checks []Check
	// Fairness gives requests their places. Without it MaxInFlight and MaxMutatingInFlight bound them, whoever asks.
	Fairness *fairness.Dispatcher
	// Metrics counts requests and the events of watches; nil counts nothing.
	Metrics Metrics
	Version version.Info
	// Address is what discovery says where the server is.
	Address string
	// Privileged lets pods have privileged containers.
	Privileged bool

	// MaxBody bounds bodies, 3 MiB by default; MaxInFlight and MaxMutatingInFlight requests that are not watches.
	MaxBody             int64
	MaxInFlight         int
	MaxMutatingInFlight int
	// RequestTimeout ends requests that are not long-running. MinRequestTimeout is the least time that a watch stays open
	// when its caller does not say.
	RequestTimeout    time.Duration
	MinRequestTimeout time.Duration
	// BookmarkPeriod is how often a watch that wants bookmarks gets one.
	BookmarkPeriod time.Duration

	Now    func() time.Time
	Logger *slog.Logger
}

// Delegate knows who else answers for group versions.
type Delegate interface {
	// Handler answers for a group version, to callers who may ask; nil says that it is served here. The caller is found in the
	// context of a request.
	Handler(schema.GroupVersion) http.Handler
	// Groups are all of them, as discovery shows them, and a number that changes when they do.
	Groups() (version int, all []DelegatedGroup)
}

// DelegatedGroup is what discovery shows of a group version that somebody else answers for.
type DelegatedGroup = discovery.Group

// Action does what posting a body to a subresource means. The answer is sent with the code.
type Action interface {
	Act(ctx context.Context, c *ActionCall) (answer runtime.Object, code int, err error)
}

// ActionFunc is an Action.
type ActionFunc func(ctx context.Context, c *ActionCall) (runtime.Object, int, error)

// Act calls the func.
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

// Connection serves a subresource that streams, by the methods of its action. An error says that nothing has been sent, and is sent.
type Connection interface {
	Connect(w http.ResponseWriter, r *http.Request, t Target) error
}

// Metrics gives what counts requests.
type Metrics interface {
	// Meter finds what counts the requests with some labels. It is called for each of them.
	Meter(l Labels) Meter
}

// Meter counts the requests that have all labels in common.
type Meter interface {
	Started()
	Finished(code int, bytes int64, took time.Duration)
	// Sent counts an event of a watch, Initial how many objects a watch began with.
	Sent(bytes int)
	Initial(events int)
}

// Labels are what metrics tell requests apart by. There is a bounded number of them, whatever is sent.
type Labels struct {
	Verb, Group, Version, Resource, Subresource, Scope string
	DryRun, LongRunning                                bool
}

// Server answers requests. It starts nothing of its own; End ends the streams that are open.
type Server struct {
	o    Options
	log  *slog.Logger
	ends context.Context
	stop context.CancelCauseFunc

	bodies            body.Reader
	handle            handler
	reading, changing chan struct{}
	identifying       chan struct{} // holds a place for each request whose token is being checked
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
	s.ends, s.stop = context.WithCancelCause(context.Background())
	return s
}

func setDefault[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// End ends all open streams; requests that come later are answered as before.
func (s *Server) End() { s.stop(errEnding) }

// Wait returns when the WebSockets have ended: an http.Server does not wait for connections that it has given away.
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
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.serving.Add(1)
	defer s.serving.Add(-1)
	c := s.newCall(w, r)
	defer c.measure()()
	defer c.endAudit()
	defer s.recover(c.Writer, r)
	err := s.handle(c)
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
	if begun, ok := w.(*answer.Response); ok && begun.Code != 0 {
		panic(http.ErrAbortHandler) // An error in the middle of an answer would be taken for a part of it.
	}
	s.fail(w, r, apierrors.NewInternalError(fmt.Errorf("this request caused apiserver to panic. Look in the logs for details")))
}

// InFlight tells how many requests are being served that are not watches.
func (s *Server) InFlight() (reading, changing int) {
	return int(s.flights.reading.Load()), int(s.flights.changing.Load())
}

type noMetrics struct{}

func (noMetrics) Meter(Labels) Meter                 { return noMetrics{} }
func (noMetrics) Started()                           {}
func (noMetrics) Finished(int, int64, time.Duration) {}
func (noMetrics) Sent(int)                           {}
func (noMetrics) Initial(int)                        {}

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := status.Of(err)
	if status.Code >= http.StatusInternalServerError && r.Context().Err() == nil {
		s.log.Warn("request failed", "method", r.Method, "path", r.URL.Path, "code", status.Code, "error", err)
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

// failed answers with an error, if there is one.
func (s *Server) failed(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
		s.fail(w, r, err)
	}
}
