package apiserver_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/apiserver"
)

// named serves a group version, and tells the names of the requests that it is handed.
type named struct{ at schema.GroupVersion }

func (e named) Handler(gv schema.GroupVersion) http.Handler {
	if gv != e.at {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Join(r.Header["Audit-Id"], ","))
	})
}

func (named) Groups() (int, []apiserver.DelegatedGroup) { return 0, nil }

func TestEveryAnswerNamesItsRequest(t *testing.T) {
	s := newServer(t, named{schema.GroupVersion{Group: "example.com", Version: "v1"}})
	ask := func(path, name string) (names []string, text string) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		if name != "" {
			r.Header.Set("Audit-Id", name)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Header()["Audit-Id"], w.Body.String()
	}
	long := strings.Repeat("7", 300)
	seen := map[string]bool{}
	for _, path := range []string{"/api/v1/pods", "/api/v1/namespaces/default/pods/none", "/api/v1/nothing", "/version", "/none", "/apis/example.com/v1/things"} {
		names, _ := ask(path, "")
		if len(names) != 1 || len(names[0]) != 36 || seen[names[0]] {
			t.Errorf("%s: names %q", path, names)
			continue
		}
		seen[names[0]] = true
		if names, _ := ask(path, long); !slices.Equal(names, []string{long}) {
			t.Errorf("%s: a name of the client became %q", path, names)
		}
	}
	if names, text := ask("/apis/example.com/v1/things", ""); text != names[0] {
		t.Errorf("the other server was told %q instead of %q", text, names[0])
	}
}
