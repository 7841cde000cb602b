package policies

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/internal/network/internal/nettest"
	"github.com/millrace/millrace/internal/network/nft"
	"github.com/millrace/millrace/loop"
)

// stage is a node with three pods, in two namespaces: a and b in "ns", far in "other". All answer on ports 80 and 81,
// in both families.
type stage struct {
	*testing.T
	node *nettest.Namespace
	pods map[string]*nettest.Namespace
	kube *fake.Clientset
	stop func() // ends the agent that runs from the start
}

var places = map[string]int{"a": 1, "b": 2, "far": 3}

func address(pod string) string  { return fmt.Sprintf("10.1.%d.2", places[pod]) }
func address6(pod string) string { return fmt.Sprintf("fd00:%d::2", places[pod]) }

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{T: t, node: nettest.New(t), pods: map[string]*nettest.Namespace{}, kube: fake.NewClientset()}
	for _, name := range []string{"ns", "other"} {
		s.must(s.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}}, metav1.CreateOptions{}))
	}
	for name, i := range places {
		pod := nettest.New(t)
		nettest.Join(s.node, "pod-"+name, []string{fmt.Sprintf("10.1.%d.1/24", i), fmt.Sprintf("fd00:%d::1/64", i)}, pod, "eth0", []string{address(name) + "/24", address6(name) + "/64"})
		pod.Route("0.0.0.0/0", fmt.Sprintf("10.1.%d.1", i))
		pod.Route("::/0", fmt.Sprintf("fd00:%d::1", i))
		s.pods[name] = pod
		s.answer(pod)
		s.pod(name)
	}
	s.stop = s.run()
	return s
}

func (s *stage) must(_ any, err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// pod creates one of the pods in the API.
func (s *stage) pod(name string) {
	s.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": name}}}
	if name == "far" {
		p.Namespace = "other"
	}
	p.Spec = corev1.PodSpec{NodeName: "here", Containers: []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{{Name: "second", ContainerPort: 81}}}}}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: address(name)}, {IP: address6(name)}}}
	s.must(s.kube.CoreV1().Pods(p.Namespace).Create(s.Context(), p, metav1.CreateOptions{}))
}

// run runs an agent until the test ends or the returned function is called.
func (s *stage) run(given ...Given) (stop func()) {
	s.Helper()
	clients := loop.ClientsFor(s.kube)
	o := Options{Clients: clients, Node: "here", Check: 10 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(s.Output(), nil))}
	if len(given) > 0 {
		o.Given = given[0]
	}
	agent, err := New(o)
	s.must(nil, err)
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 2)
	go func() { ended <- clients.Run(ctx) }()
	go func() { ended <- s.node.Try(func() error { return agent.Run(ctx) }) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				s.Error(err)
			}
		}
	}
	s.Cleanup(stop)
	select {
	case <-agent.Ready():
	case <-time.After(time.Minute):
		s.Fatal("the agent is not ready")
	}
	return stop
}

func (s *stage) answer(pod *nettest.Namespace) {
	pod.Do(func() error {
		for _, port := range []string{":80", ":81"} {
			l, err := net.Listen("tcp", port)
			if err != nil {
				return err
			}
			s.Cleanup(func() { l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = io.WriteString(c, "hello")
					c.Close()
				}
			}()
		}
		return nil
	})
}

// reaches reports whether a connection is answered.
func (s *stage) reaches(from *nettest.Namespace, to string, port int) bool {
	return from.Try(func() error {
		c, err := net.DialTimeout("tcp", net.JoinHostPort(to, fmt.Sprint(port)), 200*time.Millisecond)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(2 * time.Second))
		_, err = io.ReadAll(c)
		return err
	}) == nil
}

// way is a connection that is allowed or not.
type way struct {
	from, to string
	port     int
	open     bool
}

// comes waits until all ways are as wanted, in both families.
func (s *stage) comes(all ...way) {
	s.Helper()
	for _, w := range all {
		for _, to := range []string{address(w.to), address6(w.to)} {
			ok := false
			for range 50 {
				if ok = s.reaches(s.pods[w.from], to, w.port) == w.open; ok {
					break
				}
			}
			if !ok {
				s.Errorf("from %s to %s port %d (%s): open should be %v", w.from, w.to, w.port, to, w.open)
			}
		}
	}
}

func (s *stage) apply(name string, spec networkingv1.NetworkPolicySpec) {
	s.Helper()
	client := s.kube.NetworkingV1().NetworkPolicies("ns")
	if _, err := client.Update(s.Context(), policy(name, spec), metav1.UpdateOptions{}); err != nil {
		s.must(client.Create(s.Context(), policy(name, spec), metav1.CreateOptions{}))
	}
}

func TestPodsThatNoPolicySelectsAreOpen(t *testing.T) {
	s := newStage(t)
	s.apply("deny", networkingv1.NetworkPolicySpec{PodSelector: *selects("app", "a")})
	s.comes(way{"b", "a", 80, false}, way{"far", "b", 80, true}, way{"a", "b", 80, true})
	if !s.reaches(s.node, address("a"), 80) {
		t.Error("the node does not reach its own pod, so that no probe would")
	}
	s.must(nil, s.kube.NetworkingV1().NetworkPolicies("ns").Delete(t.Context(), "deny", metav1.DeleteOptions{}))
	s.comes(way{"b", "a", 80, true})
}

func TestIngressIsAllowedByPodsNamespacesBlocksAndPorts(t *testing.T) {
	s := newStage(t)
	port, last, named := intstr.FromInt32(79), int32(80), intstr.FromString("second")
	from := func(peers ...networkingv1.NetworkPolicyPeer) networkingv1.NetworkPolicySpec {
		return networkingv1.NetworkPolicySpec{PodSelector: *selects("app", "a"), Ingress: []networkingv1.NetworkPolicyIngressRule{{From: peers}}}
	}
	s.apply("p", from(networkingv1.NetworkPolicyPeer{PodSelector: selects("app", "b")}))
	s.comes(way{"b", "a", 80, true}, way{"far", "a", 80, false}, way{"a", "far", 80, true})
	s.apply("p", from(networkingv1.NetworkPolicyPeer{NamespaceSelector: selects("name", "other")}))
	s.comes(way{"b", "a", 80, false}, way{"far", "a", 80, true})
	s.apply("p", from(
		networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "10.1.0.0/16", Except: []string{"10.1.2.0/24"}}},
		networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "fd00::/16", Except: []string{"fd00:2::/32"}}}))
	s.comes(way{"b", "a", 80, false}, way{"far", "a", 81, true})
	spec := from()
	spec.Ingress[0].Ports = []networkingv1.NetworkPolicyPort{{Port: &port, EndPort: &last}}
	s.apply("p", spec)
	s.comes(way{"b", "a", 80, true}, way{"far", "a", 81, false})
	spec.Ingress[0].Ports = []networkingv1.NetworkPolicyPort{{Port: &named}}
	s.apply("p", spec)
	s.comes(way{"b", "a", 80, false}, way{"far", "a", 81, true})
	s.apply("q", from(networkingv1.NetworkPolicyPeer{PodSelector: selects("app", "b")}))
	s.comes(way{"b", "a", 80, true}, way{"far", "a", 80, false}, way{"far", "a", 81, true})
}

func TestEgressIsAllowedToWhatItNames(t *testing.T) {
	s := newStage(t)
	named := intstr.FromString("second")
	s.apply("p", networkingv1.NetworkPolicySpec{
		PodSelector: *selects("app", "a"), PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		Egress: []networkingv1.NetworkPolicyEgressRule{{
			To: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}, PodSelector: selects("app", "far")}}, Ports: []networkingv1.NetworkPolicyPort{{Port: &named}},
		}},
	})
	s.comes(way{"a", "far", 81, true}, way{"a", "far", 80, false}, way{"a", "b", 81, false}, way{"b", "a", 80, true}, way{"far", "a", 80, true})
}

func TestPodsThatComeLaterAreJudgedAsWell(t *testing.T) {
	s := newStage(t)
	s.apply("p", networkingv1.NetworkPolicySpec{PodSelector: *selects("app", "a"), Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{PodSelector: selects("app", "b")}}}}})
	s.comes(way{"b", "a", 80, true})
	s.must(nil, s.kube.CoreV1().Pods("ns").Delete(t.Context(), "b", metav1.DeleteOptions{}))
	s.comes(way{"b", "a", 80, false})
	s.pod("b")
	s.comes(way{"b", "a", 80, true})
}

func TestTablesThatSomebodyRemovesComeBack(t *testing.T) {
	s := newStage(t)
	s.apply("deny", networkingv1.NetworkPolicySpec{PodSelector: *selects("app", "a")})
	s.comes(way{"b", "a", 80, false})
	s.node.Do(func() error {
		conn, err := nft.Dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		var b nft.Batch
		b.DeleteTable((&table{}).nft())
		return conn.Commit(&b)
	})
	s.comes(way{"b", "a", 80, false})
}

func TestTablesOutliveARestart(t *testing.T) {
	s := newStage(t)
	stop := s.run() // a second agent, beside the stage's: both write the same
	s.apply("deny", networkingv1.NetworkPolicySpec{PodSelector: *selects("app", "a")})
	s.comes(way{"b", "a", 80, false})
	stop()
	if s.reaches(s.pods["b"], address("a"), 80) {
		t.Error("the table went with the agent")
	}
	s.node.Do(Remove)
}
