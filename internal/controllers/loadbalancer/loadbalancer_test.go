package loadbalancer_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/loadbalancer"
	"github.com/millrace/millrace/millracetest"
)

func node(name string, ready corev1.ConditionStatus, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	return n
}

func balanced(name string, port int32, change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: port}}},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

// stage is a cluster with the loop and two nodes that are ready.
type stage struct{ *looptest.Server }

func start(t *testing.T) stage {
	s := stage{looptest.New(t, millracetest.API(t))}
	looptest.Namespace(s.Server, "ns")
	looptest.Create(s.Server, "nodes", "", node("a", corev1.ConditionTrue, "192.0.2.1"))
	looptest.Create(s.Server, "nodes", "", node("b", corev1.ConditionTrue, "192.0.2.2"))
	looptest.Start(t, s.Clients(), loadbalancer.Options{Reserved: []int32{6443}}.Entry())
	return s
}

func (s stage) create(service *corev1.Service) { looptest.Create(s.Server, "services", "ns", service) }

// addresses are what a service is reached by, after a while.
func (s stage) addresses(name string) string {
	time.Sleep(time.Minute)
	synctest.Wait()
	var all []string
	for _, service := range looptest.All[corev1.Service](s.Server, "services") {
		if service.Name == name {
			for _, i := range service.Status.LoadBalancer.Ingress {
				all = append(all, i.IP)
			}
		}
	}
	return strings.Join(all, " ")
}

// events are the reasons and messages of the events about services.
func (s stage) events() []string {
	var all []string
	for _, e := range looptest.All[corev1.Event](s.Server, "events") {
		if e.InvolvedObject.Kind == "Service" {
			all = append(all, e.InvolvedObject.Name+" "+e.Reason+": "+e.Message)
		}
	}
	slices.Sort(all)
	return all
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, expected %q", what, got, want)
	}
}

func TestAServiceGetsTheAddressesOfTheNodesThatAreReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t)
		s.create(balanced("web", 80))
		expect(t, "two nodes", s.addresses("web"), "192.0.2.1 192.0.2.2")
		looptest.Edit(s.Server, "nodes", "", "a", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse })
		expect(t, "one is not ready", s.addresses("web"), "192.0.2.2")
		looptest.Edit(s.Server, "nodes", "", "b", func(n *corev1.Node) { n.Status.Addresses[0].Address = "192.0.2.9" })
		expect(t, "the other has a new address", s.addresses("web"), "192.0.2.9")
		looptest.Create(s.Server, "nodes", "", node("c", corev1.ConditionTrue, "192.0.2.3"))
		looptest.Edit(s.Server, "nodes", "", "b", func(n *corev1.Node) {
			n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""}
		})
		expect(t, "it is excluded", s.addresses("web"), "192.0.2.3")
		if got := s.events(); !slices.Equal(got, []string{"web EnsuredLoadBalancer: Ensured load balancer"}) {
			t.Errorf("events: %q", got)
		}
	})
}

func TestAClassOfSomebodyElseIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t)
		class := func(name string) func(*corev1.Service) {
			return func(s *corev1.Service) { s.Spec.LoadBalancerClass = &name }
		}
		s.create(balanced("mine", 80, class(loadbalancer.Class)))
		s.create(balanced("theirs", 81, class("example.com/cloud")))
		s.create(balanced("none", 82, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }))
		expect(t, "our class", s.addresses("mine"), "192.0.2.1 192.0.2.2")
		expect(t, "another class", s.addresses("theirs"), "")
		expect(t, "a node port", s.addresses("none"), "")
	})
}

func TestOfTwoServicesOnOnePortTheSecondWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t)
		s.create(balanced("first", 80))
		expect(t, "first", s.addresses("first"), "192.0.2.1 192.0.2.2")
		s.create(balanced("second", 80))
		s.create(balanced("api", 6443))
		s.create(balanced("datagrams", 80, func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }))
		expect(t, "second", s.addresses("second"), "")
		expect(t, "api", s.addresses("api"), "")
		expect(t, "another protocol", s.addresses("datagrams"), "192.0.2.1 192.0.2.2")
		const failed = " SyncLoadBalancerFailed: Error syncing load balancer: failed to ensure load balancer: "
		for _, want := range []string{
			"api" + failed + "port 6443/TCP of the nodes is used by the cluster itself",
			"second" + failed + "port 80/TCP of the nodes is used by service ns/first",
		} {
			if !slices.Contains(s.events(), want) {
				t.Errorf("no event %q among %q", want, s.events())
			}
		}
		looptest.Edit(s.Server, "services", "ns", "first", func(s *corev1.Service) { s.Spec.Ports[0].Port = 8080 })
		expect(t, "second, when the port is free", s.addresses("second"), "192.0.2.1 192.0.2.2")
		expect(t, "first, on another port", s.addresses("first"), "192.0.2.1 192.0.2.2")
	})
}

func TestTrafficThatStaysOnTheNodeGetsNodesWithEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t)
		s.create(balanced("web", 80, func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }))
		expect(t, "no endpoints", s.addresses("web"), "")
		on := "b"
		looptest.Create(s.Server, "endpointslices", "ns", &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}, NodeName: &on}},
		})
		expect(t, "an endpoint on b", s.addresses("web"), "192.0.2.2")
	})
}
