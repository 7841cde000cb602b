package loops_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
)

func service(app string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": app}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

// served compares the ready endpoints of a service with the ready pods that it selects.
func (w *world) served(app string) error {
	found, err := w.kube.DiscoveryV1().EndpointSlices(w.ns).List(w.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + app})
	if err != nil {
		return err
	}
	var have, want []string
	for _, s := range found.Items {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				have = append(have, e.Addresses...)
			}
		}
	}
	pods := w.pods("app=" + app)
	for i := range pods {
		if active(&pods[i]) && ready(&pods[i]) {
			want = append(want, pods[i].Status.PodIP)
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		return fmt.Errorf("endpoints are %v, ready pods %v", have, want)
	}
	return nil
}

func TestServicesFollowTheirPods(t *testing.T) {
	w := start(t, millrace.Options{Nodes: 4})
	must(w.kube.CoreV1().Services(w.ns).Create(w.Context(), service("web"), metav1.CreateOptions{}))(w)
	w.deploy(deployment("web", 5))
	for _, change := range []map[string]any{scaled(5), imaged("image:2"), scaled(9), scaled(1), scaled(0), scaled(3)} {
		w.patch("web", change)
		w.rolledOut("web")
		w.eventually("the service has the ready pods", func() error { return w.served("web") })
	}
	w.ok(w.kube.CoreV1().Services(w.ns).Delete(w.Context(), "web", metav1.DeleteOptions{}))
	w.eventually("the slices are gone", func() error {
		left := must(w.kube.DiscoveryV1().EndpointSlices(w.ns).List(w.Context(), metav1.ListOptions{}))(w)
		if len(left.Items) > 0 {
			return fmt.Errorf("%d are left", len(left.Items))
		}
		return nil
	})
}
