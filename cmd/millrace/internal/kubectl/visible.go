package kubectl

import (
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
)

// addVisible adds the flag by which "kubectl get namespaces" shows those in which the user may do something.
func addVisible(kubectl *cobra.Command, config *genericclioptions.ConfigFlags) {
	get, _, err := kubectl.Find([]string{"get"})
	if err != nil {
		return // there is no such command
	}
	visible := get.Flags().Bool("visible", false,
		"Of namespaces, show those in which you may do something. It takes no permission to list them.")
	before := config.WrapConfigFn
	config.WrapConfigFn = func(c *rest.Config) *rest.Config {
		if before != nil {
			c = before(c)
		}
		if *visible {
			c.Wrap(func(next http.RoundTripper) http.RoundTripper { return askingForVisible{next} })
		}
		return c
	}
}

// askingForVisible adds to lists and watches of namespaces the header that asks for the visible ones.
type askingForVisible struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (a askingForVisible) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/api/v1/namespaces") { // a proxy may be before it
		r = r.Clone(r.Context())
		r.Header.Set("Millrace-Namespaces", "visible")
	}
	return a.next.RoundTrip(r)
}
