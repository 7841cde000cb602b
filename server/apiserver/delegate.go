package apiserver

import (
	"context"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/server/auth"
)

// delegateOf is who else answers for a group version, or nil.
func (s *Server) delegateOf(gv schema.GroupVersion) http.Handler {
	if s.o.Delegate == nil || gv.Version == "" {
		return nil
	}
	return s.o.Delegate.Handler(gv)
}

// groupVersionOf is the group version that a path names as a whole.
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

// handOn lets somebody else answer. The request has no credentials any more, and its time is bounded if it is not a stream.
func (c *call) handOn() error {
	ctx := auth.WithUser(c.Within, c.user)
	if !c.streams() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.s.o.RequestTimeout)
		defer cancel()
	}
	c.delegate.ServeHTTP(c.Writer, auth.Forget(c.Request).WithContext(ctx))
	return nil
}

// streams tells whether a request that is handed on may go on for long.
func (c *call) streams() bool {
	switch c.t.View {
	case "attach", "exec", "log", "portforward", "proxy":
		return true
	}
	return c.verb == "watch" || c.Request.Header.Get("Upgrade") != ""
}
