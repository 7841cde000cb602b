package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/warning"

	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/internal/server/apiserver/internal/answer"
	"github.com/millrace/millrace/internal/server/apiserver/internal/query"
	"github.com/millrace/millrace/internal/server/audit"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// call is the record of one request: each stage stores here what later stages need.
type call struct {
	// Answer has the request and the writer; the face and the kind if the path names a served resource; and the format
	// once it has been negotiated.
	answer.Answer
	s *Server

	id          string // names the request in audit logs, also if there is none
	isResource  bool   // the path names a resource, which need not exist
	t           Target
	verb        string
	longRunning bool
	delegate    http.Handler // the handler of another server that serves the group version, or nil
	past        answerer     // answers a request for the past; nil for others
	ask         answerAsk    // answers a question about the changes of what the path names; nil for other requests

	user auth.User
	// impersonator is the authenticated user, if user is an impersonated one.
	impersonator *auth.User
	fully        bool // an impersonation must be allowed for all requests, not for this one alone

	record   *audit.Record // nil if the request is not audited
	copied   *audit.Body   // a copy of the response, if it is audited
	failure  error         // the error that was sent
	returned bool          // the handler returned without a panic

	// releaseSeat releases the seat of a watch, which it needs only until it has begun; nil if there is none.
	releaseSeat func()

	// narrow says that a list or a watch shows only the namespaces in which the user may do something.
	narrow bool

	storage  *registry.Storage
	meter    Meter
	started  time.Time // set if measured
	waited   time.Duration
	measured bool
	warned   int // bytes of warnings so far
}

// newCall parses what a request is for. It waits for nothing: nobody has been authenticated yet.
func (s *Server) newCall(w http.ResponseWriter, r *http.Request) *call {
	c := &call{s: s, id: audit.ID(r), meter: noMetrics{}, Answer: answer.Answer{
		Within: r.Context(),
		Writer: &answer.Response{ResponseWriter: w}, Request: r, Log: s.log,
	}}
	w.Header()[audit.IDHeader] = []string{c.id}
	if c.findPast() || c.findAsk() {
		return c
	}
	if c.t, c.isResource = parseTarget(r.URL.Path); !c.isResource {
		c.verb = strings.ToLower(r.Method)
		c.delegate = s.delegateOf(groupVersionOf(r.URL.Path))
		return c
	}
	c.verb = c.verbOf()
	if c.delegate = s.delegateOf(c.t.GroupVersion); c.delegate != nil {
		return c
	}
	c.find()
	c.longRunning = c.verb == "watch" // also of a kind that is found later
	return c
}

// find looks for the kind that the path names, among those that are known.
func (c *call) find() {
	c.Face, c.Kind = nil, nil
	if face, ok := c.s.o.Registry.Catalogue.Face(c.t.WithResource(c.t.Resource)); ok {
		c.Face, c.Kind = face, face.Of
	}
}

// measure counts the request, once its kind is known.
func (c *call) measure() {
	if c.Face == nil || c.measured {
		return
	}
	labels := c.labels()
	c.longRunning = labels.LongRunning
	c.meter = c.s.o.Metrics.Meter(labels)
	c.started, c.measured = c.s.o.Now(), true
	c.meter.Started()
}

// finish counts how the request ended.
func (c *call) finish() {
	if c.measured {
		c.meter.Finished(c.Writer.Code, c.Writer.Bytes, c.s.o.Now().Sub(c.started), c.waited)
	}
}

// answerGrace is how long sending the timeout error of a request may take.
const answerGrace = 5 * time.Second

// boundAnswer sets a write deadline: a client that does not read would occupy a seat. Long-running requests occupy
// none, so for them it removes the deadline, which an HTTP/1.1 connection may still have from its previous request.
func (c *call) boundAnswer() {
	var by time.Time
	if !c.mayTakeLong() {
		by = time.Now().Add(c.s.o.RequestTimeout + answerGrace)
	}
	// A client in the same process has no deadlines.
	_ = http.NewResponseController(c.Writer.ResponseWriter).SetWriteDeadline(by)
}

// mayTakeLong reports whether the time of the answer is not bounded: of a stream, or of a profile whose time the client
// chooses.
func (c *call) mayTakeLong() bool {
	switch {
	case c.past != nil, c.delegate != nil:
		return c.streams()
	case !c.isResource:
		return strings.HasPrefix(c.Request.URL.Path, "/debug/pprof/")
	}
	return c.longRunning
}

// ctx returns a context with what rules may know about the request.
func (c *call) ctx(dryRun bool) context.Context {
	ctx := resource.WithCall(c.Within, resource.Call{
		User: c.user.Name, UID: c.user.UID, Groups: c.user.Groups, Extra: c.user.Extra,
		Program: c.program(), Verb: c.verb, Cause: c.cause(), Face: c.Face.GroupVersion(), DryRun: dryRun, AllowPrivileged: c.s.o.Privileged,
	})
	if c.Kind.Custom {
		return warning.WithWarningRecorder(ctx, recorder(c.warn))
	}
	return ctx
}

// recorder takes what the published package for CEL rules warns of: broken rules about values that an update leaves as
// they were.
type recorder func(text string)

// AddWarning implements warning.Recorder.
func (r recorder) AddWarning(_, text string) { r(text) }

// Warnings are headers, and clients refuse headers that are too long.
const (
	longestWarning  = 1 << 10
	longestWarnings = 8 << 10
)

// warn adds a warning to the response, unless it is there or there are too many.
func (c *call) warn(text string) {
	if len(text) > longestWarning {
		text = strings.ToValidUTF8(text[:longestWarning], "") + " …"
	}
	header := fmt.Sprintf("299 - %q", text)
	if slices.Contains(c.Writer.Header()["Warning"], header) {
		return
	}
	if c.warned += len(text); c.warned <= longestWarnings {
		c.Writer.Header().Add("Warning", header)
	}
}

// longestProgram bounds what is kept of a user agent.
const longestProgram = 64

// program returns the first part of the client's user agent.
func (c *call) program() string {
	first, _, _ := strings.Cut(c.Request.UserAgent(), " ")
	if len(first) > longestProgram {
		first = strings.ToValidUTF8(first[:longestProgram], "")
	}
	return first
}

// longestCause bounds what is kept of what a client says of why it acts.
const longestCause = 4 << 10

// cause returns why the client acts, as it says.
func (c *call) cause() string {
	said := c.Request.Header[cause.Header]
	if len(said) != 1 || len(said[0]) > longestCause {
		return ""
	}
	return said[0]
}

// manager returns the field manager of the request.
func (c *call) manager(o query.Write) string {
	if o.Manager != "" {
		return o.Manager
	}
	agent, _, _ := strings.Cut(c.Request.UserAgent(), "/")
	if len(agent) > query.LongestManager {
		agent = agent[:query.LongestManager]
	}
	if agent == "" {
		return "unknown"
	}
	return agent
}

// write returns the registry's options for a write.
func (c *call) write(o query.Write) registry.WriteOptions {
	return registry.WriteOptions{Face: c.Face, Manager: c.manager(o), DryRun: o.DryRun, Warn: c.warn, Annotate: c.annotate(),
		AnnotateBodies: c.record.WantsRequest(), Asked: registry.Asked{FieldManager: o.Manager, FieldValidation: o.Validation}}
}
