package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/millrace/millrace/server/apiserver/internal/answer"
	"github.com/millrace/millrace/server/apiserver/internal/query"
	"github.com/millrace/millrace/server/audit"
	"github.com/millrace/millrace/server/auth"
	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
)

// call is the record of one request: what each stage learns stands here for the stages behind it.
type call struct {
	// Answer has the request and the writer; the face and the kind if the path names a resource that is served; and the
	// format as soon as it has been negotiated.
	answer.Answer
	s *Server

	isResource  bool // the path names a resource, which need not be served
	t           Target
	verb        string
	longRunning bool
	delegate    http.Handler // who else answers for the group version, if somebody does

	user auth.User
	// impersonator is who really calls, if user is somebody else.
	impersonator *auth.User

	record   *audit.Record // nil if nothing is written down
	copied   *audit.Body   // of the answer, if that is written down
	failure  error         // that was answered
	returned bool          // without a panic

	// begun gives back the place of a watch, which is needed only until it has begun; nil if there is none.
	begun func()

	storage *registry.Storage
	meter   Meter
	warned  int // bytes of warnings
}

// newCall finds out what a request is about.
func (s *Server) newCall(w http.ResponseWriter, r *http.Request) *call {
	c := &call{s: s, meter: noMetrics{}, Answer: answer.Answer{
		Within: r.Context(),
		Writer: &answer.Response{ResponseWriter: w}, Request: r, Log: s.log,
	}}
	if c.t, c.isResource = parseTarget(r.URL.Path); !c.isResource {
		c.verb = strings.ToLower(r.Method)
		c.delegate = s.delegateOf(groupVersionOf(r.URL.Path))
		return c
	}
	c.verb = c.verbOf()
	if c.delegate = s.delegateOf(c.t.GroupVersion); c.delegate != nil {
		return c
	}
	at := c.t.WithResource(c.t.Resource)
	face, ok := s.o.Registry.Catalogue.Face(at)
	if !ok && s.catchUp(r.Context()) {
		face, ok = s.o.Registry.Catalogue.Face(at)
	}
	if ok {
		c.Face, c.Kind = face, face.Of
	}
	return c
}

// catchUp makes known all kinds that were defined before now. It tells whether that was possible.
func (s *Server) catchUp(ctx context.Context) bool {
	return s.o.CatchUp != nil && s.o.CatchUp(ctx) == nil
}

// measure counts the request. The func is called when it has been answered.
func (c *call) measure() (finished func()) {
	if c.Face == nil {
		return func() {}
	}
	labels := c.labels()
	c.longRunning = labels.LongRunning
	c.meter = c.s.o.Metrics.Meter(labels)
	started := c.s.o.Now()
	c.meter.Started()
	return func() { c.finish(started) }
}

func (c *call) finish(started time.Time) {
	c.meter.Finished(c.Writer.Code, c.Writer.Bytes, c.s.o.Now().Sub(started))
}

// answerGrace is how long the answer of a request whose time is over may take: it says so.
const answerGrace = 5 * time.Second

// boundAnswer says by when the client must have taken the answer: one that does not read would keep one of the places for requests. What is
// long-running keeps none, and a connection of HTTP/1.1 may still have the deadline of the request before.
func (c *call) boundAnswer() {
	var by time.Time
	if !c.longRunning {
		by = time.Now().Add(c.s.o.RequestTimeout + answerGrace)
	}
	// A caller inside the process takes its answer at once, and has no deadlines.
	_ = http.NewResponseController(c.Writer.ResponseWriter).SetWriteDeadline(by)
}

// ctx carries what rules may know of the request.
func (c *call) ctx(dryRun bool) context.Context {
	return resource.WithCall(c.Within, resource.Call{
		User: c.user.Name, UID: c.user.UID, Groups: c.user.Groups, Extra: c.user.Extra,
		Face: c.Face.GroupVersion(), DryRun: dryRun, AllowPrivileged: c.s.o.Privileged,
	})
}

// Warnings are headers, and clients give up on headers that are too long.
const (
	longestWarning  = 1 << 10
	longestWarnings = 8 << 10
)

// warn adds a warning to the answer, unless there have been too many.
func (c *call) warn(text string) {
	if len(text) > longestWarning {
		text = strings.ToValidUTF8(text[:longestWarning], "") + " …"
	}
	if c.warned += len(text); c.warned <= longestWarnings {
		c.Writer.Header().Add("Warning", fmt.Sprintf("299 - %q", text))
	}
}

// manager is on whose behalf fields are tracked.
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

// write is how the registry is told of a change.
func (c *call) write(o query.Write) registry.WriteOptions {
	return registry.WriteOptions{Face: c.Face, Manager: c.manager(o), DryRun: o.DryRun, Warn: c.warn, Annotate: c.annotate(),
		Asked: registry.Asked{FieldManager: o.Manager, FieldValidation: o.Validation}}
}
