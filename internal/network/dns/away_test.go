package dns_test

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/network/dns"
	"github.com/millrace/millrace/internal/network/internal/nettest"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

// Names are answered from the last known state for ten minutes without the API. Afterwards the changes of meanwhile are
// answered, and the service by which pods find the server is not written again.
func TestTenMinutesWithoutTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := millracetest.API(t)
		kube, err := kubernetes.NewForConfig(config)
		must(t, err)
		var way nettest.Outage
		ours := rest.CopyConfig(config)
		ours.Wrap(way.Wrap)
		clients, err := loop.NewClients(ours, nil)
		must(t, err)
		server, err := dns.New(dns.Options{Clients: clients, Listen: []string{"127.0.0.1:0"}, Upstreams: []string{}}) // it does not run: a socket has no virtual time
		must(t, err)
		publisher, err := dns.Publish(dns.Publication{Clients: clients, Service: netip.MustParseAddr("10.96.0.10"), Node: "here", Server: netip.MustParseAddrPort("10.0.0.1:10053")})
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- loop.Run(ctx, clients, publisher) }()
		defer func() {
			stop()
			must(t, <-ended)
		}()
		address := func(name string) string {
			t.Helper()
			synctest.Wait()
			reply := server.Answer(t, new(wire.Msg).SetQuestion(name+".default.svc.cluster.local.", wire.TypeA))
			if len(reply.Answer) == 0 {
				return wire.RcodeToString[reply.Rcode]
			}
			return reply.Answer[0].(*wire.A).A.String()
		}
		expect := func(name, want string) {
			t.Helper()
			if got := address(name); got != want {
				t.Errorf("%s has the address %s, want %s", name, got, want)
			}
		}
		services, slices := kube.CoreV1().Services("default"), kube.DiscoveryV1().EndpointSlices("default")
		create := func(name, address string) {
			t.Helper()
			_, err := services.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
				ClusterIP: address, Ports: []corev1.ServicePort{{Port: 80}},
			}}, metav1.CreateOptions{})
			must(t, err)
		}
		endpoints := func(address string) *discoveryv1.EndpointSlice {
			return &discoveryv1.EndpointSlice{
				ObjectMeta:  metav1.ObjectMeta{Name: "db-1", Labels: map[string]string{discoveryv1.LabelServiceName: "db"}},
				AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
			}
		}
		create("web", "10.96.7.1")
		create("db", corev1.ClusterIPNone)
		_, err = slices.Create(t.Context(), endpoints("10.1.0.1"), metav1.CreateOptions{})
		must(t, err)
		time.Sleep(time.Minute)
		expect("web", "10.96.7.1")
		expect("db", "10.1.0.1")
		written := way.Writes()
		if written != 2 {
			t.Errorf("the service and its slice took %d writes, want 2", written)
		}

		way.Begin()
		must(t, services.Delete(t.Context(), "web", metav1.DeleteOptions{}))
		create("new", "10.96.7.2")
		_, err = slices.Update(t.Context(), endpoints("10.1.0.2"), metav1.UpdateOptions{})
		must(t, err)
		for range 10 {
			time.Sleep(time.Minute)
			expect("web", "10.96.7.1")
			expect("new", "NXDOMAIN")
			expect("db", "10.1.0.1")
		}

		way.End()
		time.Sleep(2 * time.Minute) // the longest pause between two tries to reach the server
		expect("web", "NXDOMAIN")
		expect("new", "10.96.7.2")
		expect("db", "10.1.0.2")
		if n := way.Writes(); n != written {
			t.Errorf("%d writes followed the outage, want none", n-written)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
