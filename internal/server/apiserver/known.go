package apiserver

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/auth"
)

// Known returns a handler for requests that need no permission but a known user, who is in their context. An
// impersonated user counts if the client may be that user in everything: one that may be so only for certain requests
// must not get more by what the handler gives away.
func (s *Server) Known(answer func(http.ResponseWriter, *http.Request) error) http.Handler {
	first := func(c *call, next handler) error {
		c.fully = true
		return next(c)
	}
	last := func(c *call) error {
		if !c.user.In(auth.Authenticated) {
			return apierrors.NewUnauthorized("Unauthorized")
		}
		return answer(c.Writer, c.Request.WithContext(auth.WithUser(c.Within, c.user)))
	}
	handle := chain(last, first, bound, identify, audited, impersonate, limit)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, handle) })
}
