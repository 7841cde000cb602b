package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/fairness"
)

// flights counts the requests that are being served, for metrics.
type flights struct{ reading, changing atomic.Int64 }

func (f *flights) of(verb string) *atomic.Int64 {
	switch verb {
	case "get", "list", "watch":
		return &f.reading
	}
	return &f.changing
}

// bound ends the request when its time is over: that of the server, or less if the client wants so. Streams have bounds
// of their own.
func bound(c *call, next handler) error {
	if c.mayTakeLong() {
		return next(c)
	}
	longest := c.s.o.RequestTimeout
	asked, err := askedTimeout(c.Request.URL)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if asked > 0 {
		longest = min(longest, asked)
	}
	within, end := context.WithTimeout(c.Within, longest)
	defer end()
	c.Within = within
	return next(c)
}

// askedTimeout is the parameter "timeout" of a request; 0 if there is none.
func askedTimeout(u *url.URL) (time.Duration, error) {
	if !strings.Contains(u.RawQuery, "timeout=") {
		return 0, nil
	}
	text := u.Query().Get("timeout")
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("invalid timeout specified in the request URL - %w", err)
	}
	return d, nil
}

// limit bounds how many requests are served at the same time.
func limit(c *call, next handler) error {
	if c.s.o.Queued != nil {
		c.s.o.Queued(c.Writer.ResponseWriter)
	}
	bounded := c.isResource && c.Face != nil
	if (c.longRunning || (c.past != nil || c.delegate != nil) && c.streams()) && c.verb != "watch" {
		return next(c)
	}
	leave, err := c.enter(bounded)
	if err != nil {
		return c.refused(err)
	}
	defer leave()
	if !bounded || c.longRunning {
		return next(c)
	}
	flying := c.s.flights.of(c.verb)
	flying.Add(1)
	defer flying.Add(-1)
	return next(c)
}

// enter takes a seat: by priority and fairness or, if that is off, of the seats that all requests share.
func (c *call) enter(bounded bool) (leave func(), err error) {
	switch {
	case c.s.o.Fairness != nil:
		return c.enterFairly()
	case !bounded || c.longRunning:
		return func() {}, nil
	}
	return c.s.enter(c.verb)
}

// enter takes one of the seats that all requests share.
func (s *Server) enter(verb string) (leave func(), err error) {
	seats := s.reading
	switch verb {
	case "get", "list":
	default:
		seats = s.changing
	}
	select {
	case seats <- struct{}{}:
		return func() { <-seats }, nil
	default:
		return nil, tooMany()
	}
}

// enterFairly waits for a seat in the priority level of the request.
func (c *call) enterFairly() (leave func(), err error) {
	q := fairness.Request{User: &c.user, Verb: c.verb, IsResource: c.isResource, Path: c.Request.URL.Path}
	if c.isResource {
		q.Group, q.Resource, q.Subresource, q.Namespace = c.t.Group, c.t.Resource, c.t.View, c.t.Namespace
		if q.Group == "" && q.Resource == "namespaces" { // a namespace is in the namespace of its own name
			q.Namespace = c.t.Name
		}
	}
	flow := c.s.o.Fairness.Classify(&q)
	flow.Tell(c.Writer.Header())
	execution, err := c.s.o.Fairness.Enter(c.Within, flow, c.work(flow), c.detail)
	if err != nil {
		return nil, err
	}
	c.waited = execution.Waited()
	switch {
	case (c.past != nil || c.delegate != nil) && c.verb == "watch": // when it has begun is not known here
		execution.End()
		return func() {}, nil
	case !c.longRunning:
		return func() { c.sendLarge(execution.End) }, nil
	}
	left := false
	c.releaseSeat = func() {
		if !left {
			left = true
			execution.End()
		}
	}
	return c.releaseSeat, nil
}

const (
	// largeAnswer is an answer that takes about as long to encrypt and send as to make.
	largeAnswer = 32 << 10
	// longestSend is how long sending it may keep others waiting: then it is the client that does not read.
	longestSend = 5 * time.Millisecond
)

// sendLarge gives back the seats of a request, and before that sends its answer if it is large. Most of its time would
// not count otherwise.
func (c *call) sendLarge(leave func()) {
	if c.Writer.Bytes < largeAnswer {
		leave()
		return
	}
	leave = sync.OnceFunc(leave)
	defer leave()
	late := time.AfterFunc(longestSend, leave)
	defer late.Stop()
	c.Writer.Flush()
}

// detail returns what dumps show of the request while it waits.
func (c *call) detail() fairness.Detail {
	return fairness.Detail{
		User: c.user.Name, Verb: c.verb, Path: c.Request.URL.Path, Namespace: c.t.Namespace, Name: c.t.Name,
		APIVersion: c.t.Version, Resource: c.t.Resource, Subresource: c.t.View,
	}
}

const (
	objectsPerSeat = 100 // objects that a list reads for each seat
	watchesPerSeat = 10  // watches that a change wakes for each seat, each for eventTime
	eventTime      = 5 * time.Millisecond
)

// work estimates the seats and the time that the request needs.
func (c *call) work(flow fairness.Classified) fairness.Work {
	w := fairness.Work{Seats: 1, Server: c.delegated()}
	if c.Face == nil || flow.Exempt() {
		return w
	}
	switch c.verb {
	case "get":
		w.Computes = true
		return w
	case "watch":
		if !c.initialEvents() {
			return w
		}
	}
	s, err := c.s.o.Registry.Storage(c.Kind)
	if err != nil {
		return w
	}
	objects, watched := s.Size()
	w.Computes = c.verb == "list"
	switch c.verb {
	case "list", "watch":
		if c.t.Name == "" && !strings.Contains(c.Request.URL.RawQuery, "metadata.name") && objects > objectsPerSeat {
			w.Seats = min(seatsFor(c.atMost(objects), objectsPerSeat), flow.MostSeats())
		}
	default:
		if watched >= watchesPerSeat && c.t.View != "token" {
			wide := seatsFor(watched, watchesPerSeat)
			w.Final = min(wide, flow.MostSeats())
			w.After = eventTime * time.Duration(wide) / time.Duration(w.Final)
		}
	}
	return w
}

// delegated is the API group of a request that another server answers. That server may hang, and then keeps seats of
// its own group alone.
func (c *call) delegated() string {
	switch {
	case c.delegate == nil:
		return ""
	case c.isResource:
		return c.t.Group
	}
	return groupVersionOf(c.Request.URL.Path).Group
}

func seatsFor(n, perSeat int) int { return max((n+perSeat-1)/perSeat, 1) }

// initialEvents reports whether a watch begins with the current state.
func (c *call) initialEvents() bool {
	q := c.Request.URL.Query()
	version := q.Get("resourceVersion")
	return version == "" || version == "0" || q.Get("sendInitialEvents") == "true"
}

// atMost bounds how many objects a list reads.
func (c *call) atMost(objects int) int {
	if !strings.Contains(c.Request.URL.RawQuery, "limit=") {
		return objects
	}
	if n, err := strconv.Atoi(c.Request.URL.Query().Get("limit")); err == nil && n > 0 {
		return min(n, objects)
	}
	return objects
}

// refused answers a request that got no seat.
func (c *call) refused(err error) error {
	var r *fairness.Refusal
	if !errors.As(err, &r) {
		return err
	}
	c.Writer.Header().Set("Retry-After", strconv.Itoa(r.RetryAfter))
	http.Error(c.Writer, "Too many requests, please try again later.", http.StatusTooManyRequests)
	return nil
}
