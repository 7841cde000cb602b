package apiserver

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/audit"
	"github.com/millrace/millrace/internal/server/auth"
)

// delegateOf returns the handler of another server for a group version, or nil.
func (s *Server) delegateOf(gv schema.GroupVersion) http.Handler {
	if s.o.Delegate == nil || gv.Version == "" {
		return nil
	}
	return s.o.Delegate.Handler(gv)
}

// groupVersionOf returns the group version if the path names exactly one.
func groupVersionOf(path string) schema.GroupVersion {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) == 2 && parts[0] == "api":
		return schema.GroupVersion{Version: parts[1]}
	case len(parts) == 3 && parts[0] == "apis":
		return schema.GroupVersion{Group: parts[1], Version: parts[2]}
	}
	return schema.GroupVersion{}
}

// handOn lets another server answer. The request's credentials are removed.
func (c *call) handOn() error {
	r := auth.Forget(c.Request).WithContext(auth.WithUser(c.Within, c.user))
	r.Header.Set(audit.IDHeader, c.id)
	c.delegate.ServeHTTP(c.Writer, r)
	return nil
}

// streams reports whether a delegated request may be long-running.
func (c *call) streams() bool {
	switch c.t.View {
	case "attach", "exec", "log", "portforward", "proxy":
		return true
	}
	return c.verb == "watch" || c.Request.Header.Get("Upgrade") != ""
}
