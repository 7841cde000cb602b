package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/apiserver/internal/status"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/resource"
)

// handler answers a request, or returns the error to send.
type handler func(*call) error

// stage does one part of a request and calls next, unless the request ends here.
type stage func(c *call, next handler) error

// stages are the stages of each request, in this order. What follows depends on the verb.
var stages = []stage{bound, identify, audited, impersonate, limit, authorize, resolve}

// chain combines stages and a final handler.
func chain(last handler, stages ...stage) handler {
	for _, s := range slices.Backward(stages) {
		next := last
		last = func(c *call) error { return s(c, next) }
	}
	return last
}

// identify authenticates the request. That may need the store, so its time is bounded.
func identify(c *call, next handler) error {
	u, err := c.s.authenticate(c.Request)
	if err != nil {
		c.unauthenticated(err)
		return err
	}
	c.user = u
	return next(c)
}

func (s *Server) authenticate(r *http.Request) (auth.User, error) {
	if _, token := auth.Bearer(r); token {
		select {
		case s.identifying <- struct{}{}:
			defer func() { <-s.identifying }()
		default:
			return auth.User{}, tooMany()
		}
	}
	u, err := s.o.Authenticate.Authenticate(r)
	switch {
	case err == nil:
		return u, nil
	case errors.Is(err, auth.ErrUnauthorized):
		s.log.Info("unable to authenticate the request", "method", r.Method, "path", r.URL.Path, "error", err)
		return auth.User{}, apierrors.NewUnauthorized("Unauthorized")
	case errors.Is(err, auth.ErrBusy):
		return auth.User{}, tooMany()
	}
	s.log.Warn("a client could not be authenticated", "method", r.Method, "path", r.URL.Path, "error", err)
	e := apierrors.NewServiceUnavailable("the credentials could not be checked, please try again later")
	e.ErrStatus.Details = retryIn(1)
	return auth.User{}, e
}

// respond answers an authorized request.
func respond(c *call) error {
	switch {
	case c.past != nil:
		return c.answerPast()
	case c.delegate != nil:
		return c.handOn()
	case c.ask != nil && !c.isResource:
		return status.NotFound()
	case !c.isResource:
		c.s.servePath(c.Writer, c.Request)
		return nil
	case c.Face == nil:
		return c.notServed()
	}
	return c.dispatch()
}

// notServed returns the 404 for a group that is not served, or for a resource that the group does not have. What a
// definition defines that cannot be read is not known, and may exist.
func (c *call) notServed() error {
	if c.s.o.Unreadable != nil {
		name := c.t.Resource + "." + c.t.Group
		if err := c.s.o.Unreadable()[name]; err != nil {
			return apierrors.NewServiceUnavailable(fmt.Sprintf("the definition %s cannot be read: %v", name, err))
		}
	}
	for _, k := range c.s.o.Registry.Catalogue.Kinds() {
		if slices.ContainsFunc(k.Served(), func(f *resource.Face) bool { return f.GroupVersion() == c.t.GroupVersion }) {
			return status.NotFound()
		}
	}
	http.NotFound(c.Writer, c.Request)
	return nil
}
