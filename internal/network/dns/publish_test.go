package dns

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/loop"
)

func publish(t *testing.T, kube *fake.Clientset, f func()) {
	clients := loop.ClientsFor(kube)
	r, err := Publish(Publication{Clients: clients, Service: netip.MustParseAddr("10.96.0.10"), Node: "here", Server: netip.MustParseAddrPort("10.0.0.1:10053")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx, clients, r) }()
	synctest.Wait()
	f()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestThePodsFindTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		publish(t, kube, func() {
			s, err := kube.CoreV1().Services("kube-system").Get(t.Context(), "kube-dns", metav1.GetOptions{})
			if err != nil || s.Spec.ClusterIP != "10.96.0.10" || len(s.Spec.Ports) != 2 {
				t.Errorf("the service is %v (%v)", s, err)
			}
		})
	})
}

func TestSomebodyElsesServerIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"k8s-app": "kube-dns"}}}
		kube := fake.NewClientset(other)
		publish(t, kube, func() {
			all, err := kube.DiscoveryV1().EndpointSlices("kube-system").List(t.Context(), metav1.ListOptions{})
			if err != nil || len(all.Items) != 0 {
				t.Errorf("slices were written: %v (%v)", all, err)
			}
		})
	})
}
