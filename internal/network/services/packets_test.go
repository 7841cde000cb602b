//go:build linux

package services

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/internal/network/internal/nettest"
	"github.com/millrace/millrace/internal/network/nft"
	"github.com/millrace/millrace/loop"
)

// stage is a node with two pods, another node's pod, and a client outside. All are network namespaces.
type stage struct {
	*testing.T
	node, client *nettest.Namespace
	pods         map[string]*nettest.Namespace // by address
	kube         *fake.Clientset
	proxy        *Proxy
	stop, away   func() // stop the last proxy, and only its access to the API
}

const (
	nodeAddress, nodeAddress6     = "10.0.0.1", "fd00:0::1"
	clientAddress, clientAddress6 = "10.0.0.2", "fd00:0::2"
	podA, podB, podFar            = "10.1.0.2", "10.1.1.2", "10.1.2.2"
	podA6                         = "fd00:1::2"
)

func newStage(t *testing.T, o Options) *stage {
	t.Helper()
	s := &stage{T: t, node: nettest.New(t), client: nettest.New(t), pods: map[string]*nettest.Namespace{}, kube: fake.NewClientset()}
	nettest.Join(s.node, "client", []string{nodeAddress + "/24", nodeAddress6 + "/64"}, s.client, "eth0", []string{clientAddress + "/24", clientAddress6 + "/64"})
	s.node.Route("0.0.0.0/0", clientAddress)
	s.client.Route("0.0.0.0/0", nodeAddress)
	s.client.Route("::/0", nodeAddress6)
	for i, address := range []string{podA, podB, podFar} {
		pod := nettest.New(t)
		nettest.Join(s.node, fmt.Sprintf("pod%d", i), []string{fmt.Sprintf("10.1.%d.1/24", i), fmt.Sprintf("fd00:%d::1/64", i+1)},
			pod, "eth0", []string{address + "/24", fmt.Sprintf("fd00:%d::2/64", i+1)})
		pod.Route("0.0.0.0/0", fmt.Sprintf("10.1.%d.1", i))
		pod.Route("::/0", fmt.Sprintf("fd00:%d::1", i+1))
		s.pods[address] = pod
		s.answer(pod, address)
	}
	s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: nodeAddress}, {Type: corev1.NodeInternalIP, Address: nodeAddress6}}}})
	o.Node = "here"
	s.start(o)
	return s
}

// start runs a proxy on the node until the test ends, or until the returned function is called.
func (s *stage) start(o Options) (stop func()) {
	s.Helper()
	o.Clients, o.Logger = loop.ClientsFor(s.kube), slog.New(slog.NewTextHandler(s.Output(), nil))
	if o.Check == 0 {
		o.Check = 20 * time.Millisecond
	}
	var err error
	if s.proxy, err = New(o); err != nil {
		s.Fatal(err)
	}
	proxy := s.proxy
	ctx, cancel := context.WithCancel(s.Context())
	reading, away := context.WithCancel(ctx)
	s.away = away
	clients, ended := make(chan error, 1), make(chan error, 1)
	go func() { clients <- o.Clients.Run(reading) }()
	go func() { ended <- s.node.Try(func() error { return proxy.Run(ctx) }) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		for _, c := range []chan error{ended, clients} {
			if err := <-c; err != nil {
				s.Error(err)
			}
		}
	}
	s.stop = stop
	s.Cleanup(stop)
	select {
	case <-proxy.Ready():
	case err := <-ended:
		ended <- err
		s.Fatalf("the proxy ended: %v", err)
	case <-time.After(time.Minute):
		s.Fatal("the proxy is not ready")
	}
	return stop
}

// answer makes a pod answer on TCP and UDP port 8080 with its name and the client's address.
func (s *stage) answer(pod *nettest.Namespace, name string) {
	pod.Do(func() error {
		l, err := net.Listen("tcp", ":8080")
		if err != nil {
			return err
		}
		packets, err := net.ListenPacket("udp", ":8080")
		if err != nil {
			return err
		}
		s.Cleanup(func() { l.Close(); packets.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
				fmt.Fprintf(c, "%s for %s", name, host)
				c.Close()
			}
		}()
		go func() {
			buffer := make([]byte, 100)
			for {
				_, from, err := packets.ReadFrom(buffer)
				if err != nil {
					return
				}
				_, _ = packets.WriteTo([]byte(name), from)
			}
		}()
		return nil
	})
}

func (s *stage) create(object any) {
	s.Helper()
	var err error
	switch o := object.(type) {
	case *corev1.Node:
		_, err = s.kube.CoreV1().Nodes().Create(s.Context(), o, metav1.CreateOptions{})
	case *corev1.Service:
		_, err = s.kube.CoreV1().Services("ns").Create(s.Context(), o, metav1.CreateOptions{})
	case *discoveryv1.EndpointSlice:
		_, err = s.kube.DiscoveryV1().EndpointSlices("ns").Create(s.Context(), o, metav1.CreateOptions{})
	}
	if err != nil {
		s.Fatal(err)
	}
}

// get connects and returns what the other side says, or "refused", or "nothing" if it says nothing for a short time.
func (s *stage) get(from *nettest.Namespace, address string) string {
	return s.getWithin(from, address, 500*time.Millisecond)
}

func (s *stage) getWithin(from *nettest.Namespace, address string, timeout time.Duration) string {
	var answer string
	err := from.Try(func() error {
		c, err := net.DialTimeout("tcp", address, timeout)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(longest))
		text, err := io.ReadAll(c)
		answer = string(text)
		return err
	})
	switch {
	case err == nil:
		return answer
	case strings.Contains(err.Error(), "refused"), strings.Contains(err.Error(), "no route"), strings.Contains(err.Error(), "unreachable"):
		return "refused"
	}
	return "nothing"
}

// longest is how long a test waits for what must come.
const longest = 30 * time.Second

// comes repeats requests until the answer is the wanted one.
func (s *stage) comes(from *nettest.Namespace, address, want string) {
	s.Helper()
	var got string
	for end := time.Now().Add(longest); time.Now().Before(end); {
		if got = s.get(from, address); got == want || want == "an answer" && strings.Contains(got, " for ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.Fatalf("%s answers %q, want %q", address, got, want)
}

// among sends many requests, and returns how often each endpoint answered.
func (s *stage) among(from *nettest.Namespace, address string) map[string]int {
	all := map[string]int{}
	for range 40 {
		who, _, _ := strings.Cut(s.getWithin(from, address, longest), " ")
		all[who]++
	}
	return all
}

func svc(name, address string, change func(*corev1.ServiceSpec)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: address, ClusterIPs: []string{address},
		Ports: []corev1.ServicePort{{Name: "p", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080)}}}
	if change != nil {
		change(&s.Spec)
	}
	return s
}

func slc(service string, protocol corev1.Protocol, all ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	name, port := "p", int32(8080)
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: all, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}}}
	if len(all) > 0 && !netip.MustParseAddr(all[0].Addresses[0]).Is4() {
		s.AddressType = discoveryv1.AddressTypeIPv6
		s.Name += "6"
	}
	return s
}

func on(node, address string) discoveryv1.Endpoint {
	yes := true
	return discoveryv1.Endpoint{Addresses: []string{address}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes}}
}

func TestClusterAddressLeadsToAllEndpoints(t *testing.T) {
	s := newStage(t, Options{})
	s.create(svc("web", "10.96.0.1", nil))
	s.comes(s.client, "10.96.0.1:80", "refused")
	s.create(slc("web", corev1.ProtocolTCP, on("here", podA), on("here", podB)))
	s.comes(s.client, "10.96.0.1:80", "an answer")
	if got := s.among(s.client, "10.96.0.1:80"); got[podA] == 0 || got[podB] == 0 || got[podA]+got[podB] != 40 {
		t.Errorf("40 connections went to %v", got)
	}
	s.comes(s.node, "10.96.0.1:80", "an answer")
	s.comes(s.client, "10.96.0.1:81", "refused")
}

func TestAPodReachesItselfThroughItsService(t *testing.T) {
	s := newStage(t, Options{ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}})
	s.create(svc("web", "10.96.0.1", nil))
	s.create(slc("web", corev1.ProtocolTCP, on("here", podA)))
	s.comes(s.pods[podA], "10.96.0.1:80", podA+" for 10.1.0.1")
	s.comes(s.pods[podB], "10.96.0.1:80", podA+" for "+podB)
	s.comes(s.client, "10.96.0.1:80", podA+" for 10.1.0.1")
}

func TestIPv6(t *testing.T) {
	s := newStage(t, Options{})
	s.create(svc("web", "fd00:96::1", nil))
	s.create(slc("web", corev1.ProtocolTCP, on("here", podA6)))
	s.comes(s.client, "[fd00:96::1]:80", podA+" for "+strings.Replace(clientAddress6, ":0::", "::", 1))
}

func TestNodePortsAndExternalAddresses(t *testing.T) {
	s := newStage(t, Options{})
	s.create(svc("web", "10.96.0.1", func(p *corev1.ServiceSpec) {
		p.Type, p.Ports[0].NodePort, p.ExternalIPs = corev1.ServiceTypeNodePort, 30080, []string{"192.0.2.1"}
	}))
	s.create(slc("web", corev1.ProtocolTCP, on("there", podFar)))
	s.comes(s.client, nodeAddress+":30080", podFar+" for 10.1.2.1")
	s.comes(s.client, "192.0.2.1:80", podFar+" for 10.1.2.1")
	s.comes(s.node, nodeAddress+":30080", podFar+" for 10.1.2.1")
}

func TestExternalTrafficStaysOnTheNode(t *testing.T) {
	s := newStage(t, Options{ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}})
	local := svc("web", "10.96.0.1", func(p *corev1.ServiceSpec) {
		p.Type, p.Ports[0].NodePort, p.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, 30080, corev1.ServiceExternalTrafficPolicyLocal
		p.HealthCheckNodePort = 30081
	})
	local.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	s.create(local)
	s.create(slc("web", corev1.ProtocolTCP, on("here", podA), on("there", podFar)))
	s.comes(s.client, "192.0.2.1:80", podA+" for "+clientAddress)
	if got := s.among(s.client, nodeAddress+":30080"); got[podA] != 40 {
		t.Errorf("40 connections to the node port went to %v", got)
	}
	if got := s.among(s.pods[podB], "192.0.2.1:80"); got[podA] == 0 || got[podFar] == 0 {
		t.Errorf("40 connections from a pod went to %v", got)
	}
	moved := slc("web", corev1.ProtocolTCP, on("there", podFar))
	if _, err := s.kube.DiscoveryV1().EndpointSlices("ns").Update(t.Context(), moved, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.comes(s.client, "192.0.2.1:80", "nothing")
	s.comes(s.node, "192.0.2.1:80", "an answer")
	s.comes(s.pods[podB], "192.0.2.1:80", podFar+" for "+podB)
}

func TestOnlyAllowedSourcesReachALoadBalancer(t *testing.T) {
	s := newStage(t, Options{})
	for name, sources := range map[string]string{"192.0.2.1": "10.0.0.0/24", "192.0.2.2": "10.9.0.0/24"} {
		balanced := svc("web-"+sources[:4], "10.96.0."+name[8:], func(p *corev1.ServiceSpec) {
			p.Type, p.LoadBalancerSourceRanges = corev1.ServiceTypeLoadBalancer, []string{sources}
		})
		balanced.Name = strings.ReplaceAll("web-"+name, ".", "-")
		balanced.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: name}}
		s.create(balanced)
		s.create(slc(balanced.Name, corev1.ProtocolTCP, on("here", podA)))
	}
	s.comes(s.client, "192.0.2.1:80", "an answer")
	s.comes(s.client, "10.96.0.2:80", "an answer")
	s.comes(s.client, "192.0.2.2:80", "nothing")
}

func TestAClientStaysWithItsEndpoint(t *testing.T) {
	s := newStage(t, Options{})
	s.create(svc("web", "10.96.0.1", func(p *corev1.ServiceSpec) { p.SessionAffinity = corev1.ServiceAffinityClientIP }))
	s.create(slc("web", corev1.ProtocolTCP, on("here", podA), on("here", podB), on("there", podFar)))
	s.comes(s.client, "10.96.0.1:80", "an answer")
	first := s.among(s.client, "10.96.0.1:80")
	if len(first) != 1 {
		t.Fatalf("40 connections went to %v", first)
	}
	var rest []discoveryv1.Endpoint
	for _, a := range []string{podA, podB, podFar} {
		if first[a] == 0 {
			rest = append(rest, on("here", a))
		}
	}
	if _, err := s.kube.DiscoveryV1().EndpointSlices("ns").Update(t.Context(), slc("web", corev1.ProtocolTCP, rest...), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if s.endpoints("web") == 2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	second := s.among(s.client, "10.96.0.1:80")
	for a := range first {
		if second[a] > 0 || len(second) != 1 {
			t.Errorf("when %v had gone, 40 connections went to %v", first, second)
		}
	}
}

// endpoints returns how many of a service's endpoints are in the kernel's table.
func (s *stage) endpoints(string) int {
	n := 0
	s.node.Do(func() error {
		return elements(func(set setNumber, count int) {
			if set == endpointsMap {
				n = count
			}
		})
	})
	return n
}

func TestTablesThatSomebodyRemovedComeBack(t *testing.T) {
	s := newStage(t, Options{})
	s.create(svc("web", "10.96.0.1", nil))
	s.create(slc("web", corev1.ProtocolTCP, on("here", podA)))
	s.comes(s.client, "10.96.0.1:80", "an answer")
	s.node.Do(Remove)
	s.comes(s.client, "10.96.0.1:80", "an answer")
}

func TestARestartLeavesNoGap(t *testing.T) {
	s := &stage{}
	*s = *newStage(t, Options{})
	s.create(svc("web", "10.96.0.1", nil))
	s.create(slc("web", corev1.ProtocolTCP, on("here", podA)))
	s.comes(s.client, "10.96.0.1:80", "an answer")
	before := s.generation()
	s.start(Options{Node: "here"}) // a second proxy, for which nothing needs to change
	if after := s.generation(); after != before {
		t.Errorf("a proxy that finds its tables wrote to them: generation %d, then %d", before, after)
	}
	s.comes(s.client, "10.96.0.1:80", "an answer")
	s.node.Do(Remove)
}

func TestAFlowToAnEndpointThatHasEndedIsForgotten(t *testing.T) {
	s := newStage(t, Options{})
	s.create(svc("dns", "10.96.0.1", func(p *corev1.ServiceSpec) { p.Ports[0].Protocol = corev1.ProtocolUDP }))
	s.create(slc("dns", corev1.ProtocolUDP, on("here", podA)))
	var conn net.Conn
	s.client.Do(func() (err error) {
		conn, err = net.Dial("udp", "10.96.0.1:80")
		return err
	})
	defer conn.Close()
	asks := func(want string) {
		t.Helper()
		var got string
		for range 300 {
			buffer := make([]byte, 100)
			_ = conn.SetDeadline(time.Now().Add(50 * time.Millisecond))
			_, _ = conn.Write([]byte("?"))
			n, _ := conn.Read(buffer)
			if got = string(buffer[:n]); got == want {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("the same flow is answered by %q, want %q", got, want)
	}
	asks(podA)
	if _, err := s.kube.DiscoveryV1().EndpointSlices("ns").Update(t.Context(), slc("dns", corev1.ProtocolUDP, on("here", podB)), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	asks(podB)
}

func TestNothingIsLeftAfterRemove(t *testing.T) {
	s := newStage(t, Options{})
	s.create(svc("web", "10.96.0.1", nil))
	s.create(slc("web", corev1.ProtocolTCP, on("here", podA)))
	s.comes(s.client, "10.96.0.1:80", "an answer")
	again := newStage(t, Options{Check: time.Hour}) // a proxy that does not repair tables
	again.node.Do(Remove)
	again.node.Do(func() error {
		if elements(func(setNumber, int) {}) == nil {
			t.Error("the tables are still there")
		}
		return nil
	})
}

func TestThisKernelCanDoWhatServicesNeed(t *testing.T) {
	n := nettest.New(t)
	n.Do(Check)
	n.Do(func() error {
		conn, err := nft.Dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, exists, err := conn.Comment(family{name: "millrace-check"}.table()); exists || err != nil {
			t.Errorf("the check left its table (%v)", err)
		}
		return nil
	})
}
