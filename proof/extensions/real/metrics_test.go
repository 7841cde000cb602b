//go:build unix

package real_test

import (
	"fmt"
	"regexp"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

const usage = "v1beta1.metrics.k8s.io"

// top waits until kubectl top shows the node, and both pods with what they pretend to use.
func (w *world) top(by string) {
	w.Helper()
	w.eventually("kubectl top by "+by, func() error {
		nodes, messages, ok := w.kubectl("top", "nodes")
		if !ok || !regexp.MustCompile(`hollow-0 +\d+m +\d+% +\d+Mi`).MatchString(nodes) {
			return fmt.Errorf("nodes: %s%s", nodes, messages)
		}
		pods, messages, ok := w.kubectl("top", "pods", "-n", "default")
		// What is measured is an average of some seconds.
		if !ok || len(regexp.MustCompile(`web-\S+ +(199|200|201)m +64Mi`).FindAllString(pods, -1)) != 2 {
			return fmt.Errorf("pods: %s%s", pods, messages)
		}
		return nil
	})
}

func TestMetricsServer(t *testing.T) {
	path := built(t, metricsServer, "/cmd/metrics-server")
	w := newWorld(t, millrace.Options{Nodes: 1})
	w.apply("web.yaml")
	millracetest.WaitWithin(t, bound, w.kube.AppsV1().Deployments("default"), "web", func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == 2 })
	w.top("Millrace itself")

	e := w.newExtension(path, "kube-system", "metrics-server")
	w.apply("metrics.yaml", e.words()...)
	w.apply("slice.yaml", append(e.words(), "{NAMESPACE}", "kube-system", "{SERVICE}", "metrics-server")...)
	w.condition(usage, "FailedDiscoveryCheck")
	w.eventually("Millrace's own steps aside", func() error {
		if out, _, ok := w.kubectl("top", "nodes"); ok {
			return fmt.Errorf("there is an answer: %s", out)
		}
		return nil
	})
	e.delegates(w.account("kube-system", "metrics-server"))
	e.args = append(e.args, "--kubelet-insecure-tls", "--kubelet-use-node-status-port", "--kubelet-preferred-address-types=InternalIP", "--metric-resolution=10s", "--kubelet-request-timeout=5s")
	e.start(w)
	w.condition(usage, "Passed")
	w.top("metrics-server")

	e.kill()
	w.condition(usage, "FailedDiscoveryCheck")
	w.must(w.services.ApiregistrationV1().APIServices().Delete(t.Context(), usage, metav1.DeleteOptions{}))
	w.top("Millrace again")
	// Nobody makes the object again while the server runs, so that whoever installs another server can create it.
	if _, err := w.services.ApiregistrationV1().APIServices().Get(t.Context(), usage, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the APIService: %v", err)
	}
}
