package millrace

import (
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/metricsapi"
	"github.com/millrace/millrace/server/aggregation"
)

// backends returns the API groups that are served in this process: metrics.k8s.io, if loops run that may need it.
func (c *Cluster) backends() map[schema.GroupVersion]aggregation.Backend {
	if len(c.options.Controllers) == 0 {
		return nil
	}
	usage := sync.OnceValue(func() http.Handler {
		config := c.InProcess()
		config.Transport = from{component(metricsUser), later{c}}
		kube, err := kubernetes.NewForConfig(config)
		if err != nil {
			return http.NotFoundHandler()
		}
		return metricsapi.New(metricsapi.Options{Kube: kube, Logger: c.options.Logger})
	})
	return map[schema.GroupVersion]aggregation.Backend{
		{Group: "metrics.k8s.io", Version: "v1beta1"}: {Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { usage().ServeHTTP(w, r) })},
	}
}

// later sends in-process requests once they can be served.
type later struct{ cluster *Cluster }

// RoundTrip implements http.RoundTripper.
func (l later) RoundTrip(r *http.Request) (*http.Response, error) {
	return l.cluster.inside.RoundTrip(r)
}
