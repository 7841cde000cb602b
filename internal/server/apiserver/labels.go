package apiserver

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/server/apiserver/internal/query"
)

func (c *call) labels() Labels {
	l := Labels{Verb: c.verbLabel(), Group: c.Face.Group, Version: c.Face.Version, Resource: c.Face.Resource, Subresource: c.knownView(), Scope: c.scope()}
	l.LongRunning = c.verb == "watch"
	if c.t.View != "" {
		if _, connects := c.s.o.Connections[c.t.Resource+"/"+c.t.View]; connects {
			l.Verb, l.LongRunning = "CONNECT", true
		}
	}
	switch c.verb {
	case "get", "list", "watch":
	default:
		l.DryRun = strings.Contains(c.Request.URL.RawQuery, "dryRun")
	}
	return l
}

// verbLabel returns the verb as metrics name it: mostly the method.
func (c *call) verbLabel() string {
	switch c.verb {
	case "get":
		return "GET"
	case "list":
		return "LIST"
	case "watch":
		return "WATCH"
	case "create":
		return "POST"
	case "update":
		return "PUT"
	case "patch":
		if strings.HasPrefix(c.Request.Header.Get("Content-Type"), string(types.ApplyYAMLPatchType)) {
			return "APPLY"
		}
		return "PATCH"
	case "delete":
		return "DELETE"
	case "deletecollection":
		return "DELETECOLLECTION"
	}
	return "other"
}

// knownView returns the subresource, or nothing if it does not exist.
func (c *call) knownView() string {
	view := c.t.View
	if view == "" {
		return view
	}
	if _, ok := c.Kind.Subresource(view); ok {
		return view
	}
	return "other"
}

func (c *call) scope() string {
	switch {
	case c.t.Name != "":
		return "resource"
	case c.t.Namespace != "":
		return "namespace"
	}
	return "cluster"
}

// verbOf returns the verb as authorization rules name it.
func (c *call) verbOf() string {
	switch c.Request.Method {
	case http.MethodGet, http.MethodHead:
		watching := c.t.Watch || strings.Contains(c.Request.URL.RawQuery, "watch") && query.Bool(c.Request.URL.Query(), "watch")
		switch {
		case watching && c.t.View == "" && (c.t.Name == "" || c.t.Watch):
			return "watch"
		case c.t.Name == "":
			return "list"
		}
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if c.t.Name == "" {
			return "deletecollection"
		}
		return "delete"
	}
	return strings.ToLower(c.Request.Method)
}
