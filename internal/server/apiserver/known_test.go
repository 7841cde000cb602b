package apiserver

import (
	"testing"

	"github.com/millrace/millrace/internal/server/auth"
)

func TestAnImpersonationForCertainRequestsIsNotOneForAll(t *testing.T) {
	constrained := func(a auth.Attributes) auth.Verdict { return allowIf(a.Verb != "impersonate") }
	for _, fully := range []bool{false, true} {
		c := callFor(&permits{verdict: constrained}, "POST", "/page/link")
		c.Request.Header.Set("Impersonate-User", "alice")
		c.user, c.fully = auth.User{Name: "bob", Groups: []string{auth.Authenticated}}, fully
		err := impersonate(c, func(*call) error { return nil })
		if (err != nil) != fully {
			t.Errorf("where all of it is needed (%v): %v", fully, err)
		}
	}
}
