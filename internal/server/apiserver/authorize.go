package apiserver

import (
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/internal/server/auth"
)

// authorize checks whether the user may do what the request asks for.
func authorize(c *call, next handler) error {
	at := c.attributes()
	v := c.narrowing(c.s.o.Authorize.Authorize(c.Within, at))
	c.decided(v)
	if err := verdict(at, v); err != nil {
		return err
	}
	if c.opensSession() {
		at.Verb = "create"
		if err := c.allowed(at); err != nil {
			return err
		}
	}
	return next(c)
}

// opensSession reports whether a request starts a session in a container although its method is GET, as WebSockets
// need. The permission to read a pod must not allow that.
func (c *call) opensSession() bool {
	if c.verb != "get" || c.t.Group != "" || c.t.Resource != "pods" {
		return false
	}
	switch c.t.View {
	case "exec", "attach", "portforward":
		return true
	}
	return false
}

func (c *call) allowed(at auth.Attributes) error {
	return verdict(at, c.s.o.Authorize.Authorize(c.Within, at))
}

// verdict converts a decision to an error, or nil.
func verdict(at auth.Attributes, v auth.Verdict) error {
	switch {
	case v.Allowed():
		return nil
	case v.Err != nil && v.Decision == auth.NoOpinion:
		return apierrors.NewInternalError(v.Err)
	}
	return auth.Forbidden(at, v)
}

// attributes returns the attributes of the request for the authorizer.
func (c *call) attributes() auth.Attributes {
	if !c.isResource {
		return auth.Attributes{User: c.user, Verb: c.verb, Path: c.Request.URL.Path}
	}
	at := auth.Attributes{
		User: c.user, Verb: c.verb, IsResource: true, Path: c.Request.URL.Path,
		Group: c.t.Group, Version: c.t.Version, Resource: c.t.Resource, Subresource: c.t.View, Namespace: c.t.Namespace, Name: c.t.Name,
	}
	if c.t.Resource == "namespaces" && c.t.Group == "" { // a namespace is in the namespace of its own name
		at.Namespace = c.t.Name
	}
	switch c.verb {
	case "list", "watch", "deletecollection":
		if strings.Contains(c.Request.URL.RawQuery, "Selector") && c.ask == nil { // changes are not selected, so nor is what is allowed
			selectors(c.Request, &at)
		}
	}
	return at
}

// selectors adds the selectors of a list. A selector that cannot be parsed counts as none; the request is refused for
// it later.
func selectors(r *http.Request, at *auth.Attributes) {
	q := r.URL.Query()
	if s, err := fields.ParseSelector(q.Get("fieldSelector")); err == nil {
		at.Fields = s.Requirements()
		if name, ok := s.RequiresExactMatch("metadata.name"); ok && at.Name == "" {
			at.Name = name
		}
	}
	if s, err := labels.ParseToRequirements(q.Get("labelSelector")); err == nil {
		at.Labels = s
	}
}

func tooMany() error {
	return apierrors.NewTooManyRequests("too many requests, please try again later", 1)
}

func retryIn(seconds int32) *metav1.StatusDetails {
	return &metav1.StatusDetails{RetryAfterSeconds: seconds}
}
