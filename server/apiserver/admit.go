package apiserver

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/server/auth"
)

// enter takes a place among the requests that are served at the same time.
func (s *Server) enter(verb string) (leave func(), err error) {
	places := s.reading
	switch verb {
	case "get", "list":
	default:
		places = s.changing
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, tooMany()
	}
}

func tooMany() error {
	e := apierrors.NewTooManyRequests("too many requests, please try again later", 1)
	return e
}

func forbiddenResource(u auth.User, verb string, t Target) error {
	gr := schema.GroupResource{Group: t.Group, Resource: t.Resource}
	what := t.Resource
	if t.View != "" {
		what += "/" + t.View
	}
	where := "at the cluster scope"
	if t.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", t.Namespace)
	}
	return apierrors.NewForbidden(gr, t.Name, fmt.Errorf("User %q cannot %s resource %q in API group %q %s", u.Name, verb, what, t.Group, where))
}
