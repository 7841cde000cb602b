package apiserver

import (
	"net/http"
	"testing"

	"github.com/millrace/millrace/internal/server/apiserver/internal/answer"
	"github.com/millrace/millrace/internal/server/apiserver/internal/status"
	"github.com/millrace/millrace/internal/server/resource/builtin"
)

func TestOldWatchPathsServeOnlyWatches(t *testing.T) {
	kinds := map[string]*call{}
	for _, k := range builtin.Kinds() {
		kinds[k.GroupResource().String()] = &call{Answer: answer.Answer{Kind: k}}
	}
	for _, c := range []struct {
		resource, verb, namespace, name string
		code                            int32
	}{
		{"configmaps", "watch", "n", "", 0},
		{"configmaps", "watch", "n", "a", 0},
		{"configmaps", "watch", "", "", 0},
		{"configmaps", "watch", "", "a", http.StatusNotFound},
		{"configmaps", "deletecollection", "n", "", http.StatusMethodNotAllowed},
		{"configmaps", "create", "n", "", http.StatusMethodNotAllowed},
		{"configmaps", "delete", "n", "a", http.StatusMethodNotAllowed},
		{"componentstatuses", "watch", "", "", http.StatusNotFound},
		{"nodes", "watch", "", "a", 0},
	} {
		in := kinds[c.resource]
		in.verb, in.t = c.verb, Target{Resource: c.resource, Namespace: c.namespace, Name: c.name, Watch: true}
		code := int32(0)
		if err := in.checkScope(); err != nil {
			code = status.Of(err).Code
		}
		if code != c.code {
			t.Errorf("%s %s %q %q: %d instead of %d", c.verb, c.resource, c.namespace, c.name, code, c.code)
		}
	}
}
