package apiserver

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// resolveTimeout bounds how long a request waits for definitions of custom resources. They come with the log, which may
// stall.
const resolveTimeout = 3 * time.Second

// resolve finds the kind of the request as the definitions say that were acknowledged before now. That may need the
// store, so it comes after all stages that can refuse the request. Built-in kinds need no wait.
//
// While the log stalls, a kind that is known can still be read: only how its objects are shown may be outdated. A write
// might break the newest schema, and a kind that is not known may exist, so these fail.
func resolve(c *call, next handler) error {
	if !c.isResource || c.past != nil || c.delegate != nil || c.Face != nil && c.Kind.Life == nil {
		return next(c)
	}
	news := c.s.o.CatchUp
	if c.Face != nil {
		news = c.s.o.Settle
	}
	switch err := wait(c.Within, news); {
	case err == nil:
		c.find()
		c.measure()
	case c.Face == nil || c.changes():
		c.s.log.Warn("the definitions of custom resources could not be read", "method", c.Request.Method, "path", c.Request.URL.Path, "error", err)
		e := apierrors.NewServiceUnavailable("the definitions of custom resources could not be read in time, please try again later")
		e.ErrStatus.Details = retryIn(1)
		return e
	}
	return next(c)
}

// changes reports whether the request may change something.
func (c *call) changes() bool {
	switch c.verb {
	case "get", "list", "watch":
		return false
	}
	return true
}

// wait calls f, if there is one, for a bounded time.
func wait(ctx context.Context, f func(context.Context) error) error {
	if f == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	return f(ctx)
}
