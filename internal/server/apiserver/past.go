package apiserver

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/millrace/millrace/internal/server/auth"
)

type answerer func(http.ResponseWriter, *http.Request) error

// findPast reports whether the request asks for the past. Then everything that follows, but the answer, is about the
// path without what leads there.
func (c *call) findPast() bool {
	if c.s.o.Past == nil {
		return false
	}
	rest, answer := c.s.o.Past.Handler(c.Request.URL.Path)
	if answer == nil {
		return false
	}
	c.past = answer
	r := *c.Request
	u := url.URL{Path: rest, RawQuery: r.URL.RawQuery}
	r.URL, c.Request = &u, &r
	if c.t, c.isResource = parseTarget(rest); c.isResource {
		c.verb = c.verbOf()
		return true
	}
	c.verb = strings.ToLower(r.Method)
	return true
}

// answerPast answers a request for the past.
func (c *call) answerPast() error {
	return c.past(c.Writer, c.Request.WithContext(auth.WithUser(c.Within, c.user)))
}
