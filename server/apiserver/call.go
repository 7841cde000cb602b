package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/millrace/millrace/server/apiserver/internal/answer"
	"github.com/millrace/millrace/server/apiserver/internal/query"
	"github.com/millrace/millrace/server/auth"
	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
)

// call is one request for a resource.
type call struct {
	answer.Answer
	s       *Server
	t       Target
	verb    string
	user    auth.User
	storage *registry.Storage
	meter   Meter
	warned  int // bytes of warnings
}

func (s *Server) serveResource(w http.ResponseWriter, r *http.Request, user auth.User, t Target) {
	face, ok := s.o.Registry.Catalogue.Face(t.WithResource(t.Resource))
	if !ok {
		s.unknownResource(w, r, user, t)
		return
	}
	c := &call{s: s, t: t, user: user, Answer: answer.Answer{
		Within: r.Context(),
		Writer: &answer.Response{ResponseWriter: w}, Request: r, Face: face, Kind: face.Of, Log: s.log,
	}}
	c.verb = c.verbOf()
	labels := c.labels()
	started := s.o.Now()
	c.meter = s.o.Metrics.Meter(labels)
	c.meter.Started()
	defer func() { c.meter.Finished(c.Writer.Code, c.Writer.Bytes, s.o.Now().Sub(started)) }()
	defer s.recover(c.Writer, r)
	if err := c.serve(labels.LongRunning); err != nil {
		s.fail(c.Writer, c.Request, err)
	}
}

func (c *call) serve(longRunning bool) error {
	if err := c.s.o.Authorize.Authorize(c.Within, auth.Attributes{
		User: c.user, Verb: c.verb, Group: c.t.Group, Version: c.t.Version, Resource: c.t.Resource, Subresource: c.t.View,
		Namespace: c.t.Namespace, Name: c.t.Name, Path: c.Request.URL.Path, IsResource: true,
	}); err != nil {
		return forbiddenResource(c.user, c.verb, c.t)
	}
	if !longRunning {
		leave, err := c.s.enter(c.verb)
		if err != nil {
			return err
		}
		defer leave()
		var cancel context.CancelFunc
		c.Within, cancel = context.WithTimeout(c.Within, c.s.o.RequestTimeout)
		defer cancel()
	}
	c.boundAnswer(longRunning)
	return c.dispatch()
}

// answerGrace is how long the answer of a request whose time is over may take: it says so.
const answerGrace = 5 * time.Second

// boundAnswer says by when the client must have taken the answer: one that does not read would keep one of the places for requests. What is
// long-running keeps none, and a connection of HTTP/1.1 may still have the deadline of the request before.
func (c *call) boundAnswer(longRunning bool) {
	var by time.Time
	if !longRunning {
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
	return registry.WriteOptions{Face: c.Face, Manager: c.manager(o), DryRun: o.DryRun, Warn: c.warn}
}
