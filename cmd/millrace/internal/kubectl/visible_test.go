package kubectl

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
)

func TestVisibleNamespacesAreAskedForByAFlag(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+" "+r.Header.Get("Millrace-Namespaces"))
	}))
	defer server.Close()
	for _, args := range [][]string{
		{"/api/v1/namespaces", "--visible"}, {"/api/v1/namespaces"}, {"/api/v1/namespaces/a", "--visible"}, {"/api/v1/pods", "--visible"},
	} {
		c := Command()
		c.SetArgs(append([]string{"get", "--server", server.URL, "--raw"}, args...))
		if err := c.Execute(); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"/api/v1/namespaces visible", "/api/v1/namespaces ", "/api/v1/namespaces/a ", "/api/v1/pods "}
	if !slices.Equal(asked, want) {
		t.Errorf("the requests are %q, want %q", asked, want)
	}
}
