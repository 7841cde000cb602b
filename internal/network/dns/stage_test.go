package dns_test

import (
	"context"
	"strings"
	"testing"
	"time"

	wire "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/network/dns"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

// stage is an API server and a DNS server with its informers.
type stage struct {
	testing.TB
	kube    *kubernetes.Clientset
	server  *dns.Server
	address string
}

// newStage starts both, and sets the options' clients and address.
func newStage(t testing.TB, o dns.Options) *stage {
	t.Helper()
	cluster := millracetest.Start(t, millrace.Options{Controllers: []string{}, NoScheduler: true})
	clients, err := loop.NewClients(cluster.InProcess(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if o.Upstreams == nil {
		o.Upstreams = []string{}
	}
	o.Clients, o.Listen = clients, []string{"127.0.0.1:0"}
	s := &stage{TB: t, kube: millracetest.Clientset(t, cluster)}
	if s.server, err = dns.New(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx, clients, s.server) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s.address = s.listening(ctx)
	if err := s.server.Synced(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stage) listening(ctx context.Context) string {
	all, err := s.server.Addresses(ctx)
	if err != nil {
		s.Fatal(err)
	}
	return all[0]
}

// service creates a service in the namespace default, and waits until the server has it.
func (s *stage) service(name string, spec corev1.ServiceSpec) *corev1.Service {
	s.Helper()
	got, err := s.kube.CoreV1().Services("default").Create(s.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	if err := s.server.WaitServices(s.Context(), got.ResourceVersion); err != nil {
		s.Fatal(err)
	}
	return got
}

// slice creates a slice of a service, and waits until the server has it.
func (s *stage) slice(service string, family discoveryv1.AddressType, ports []discoveryv1.EndpointPort, all ...discoveryv1.Endpoint) {
	s.Helper()
	got, err := s.kube.DiscoveryV1().EndpointSlices("default").Create(s.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{GenerateName: service + "-", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: family, Endpoints: all, Ports: ports,
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	if err := s.server.WaitSlices(s.Context(), got.ResourceVersion, false); err != nil {
		s.Fatal(err)
	}
}

// managed creates a slice with one endpoint like the controller's for services with a selector; marked is its label for
// headless services. Without it the server does not read the slice.
func (s *stage) managed(service, address string, marked bool) {
	s.Helper()
	labels := map[string]string{discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"}
	if marked {
		labels[corev1.IsHeadlessService] = ""
	}
	got, err := s.kube.DiscoveryV1().EndpointSlices("default").Create(s.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{GenerateName: service + "-", Labels: labels},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	if !marked {
		return
	}
	if err := s.server.WaitSlices(s.Context(), got.ResourceVersion, true); err != nil {
		s.Fatal(err)
	}
}

// ask asks over UDP.
func (s *stage) ask(name string, kind uint16) *wire.Msg {
	s.Helper()
	return s.exchange(new(wire.Msg).SetQuestion(name, kind), "udp")
}

func (s *stage) exchange(m *wire.Msg, network string) *wire.Msg {
	s.Helper()
	client := &wire.Client{Net: network, Timeout: 10 * time.Second}
	reply, _, err := client.ExchangeContext(s.Context(), m, s.address)
	if err != nil {
		s.Fatalf("ask for %v: %v", m.Question, err)
	}
	return reply
}

// expect asks, and compares the code and the values of the answer, in any order.
func (s *stage) expect(name string, kind uint16, code int, values ...string) {
	s.Helper()
	reply := s.ask(name, kind)
	if reply.Rcode != code {
		s.Errorf("%s %s: the code is %s, want %s", name, wire.TypeToString[kind], wire.RcodeToString[reply.Rcode], wire.RcodeToString[code])
	}
	got := map[string]bool{}
	for _, r := range reply.Answer {
		got[strings.TrimPrefix(r.String(), r.Header().String())] = true
	}
	if len(got) != len(values) || len(reply.Answer) != len(values) {
		s.Errorf("%s %s: the answer is %v, want %v", name, wire.TypeToString[kind], reply.Answer, values)
	}
	for _, v := range values {
		if !got[v] {
			s.Errorf("%s %s: the answer %v lacks %s", name, wire.TypeToString[kind], reply.Answer, v)
		}
	}
}

// upstreamServer is another DNS server, whose answers a function makes.
func upstreamServer(t testing.TB, answer func(*wire.Msg) *wire.Msg) string {
	t.Helper()
	conn, l, err := dns.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	handler := wire.HandlerFunc(func(w wire.ResponseWriter, m *wire.Msg) {
		reply := answer(m)
		if reply == nil {
			return
		}
		if w.LocalAddr().Network() == "udp" {
			reply.Truncate(1232)
		}
		_ = w.WriteMsg(reply)
	})
	for _, server := range []*wire.Server{{PacketConn: conn, Handler: handler}, {Listener: l, Handler: handler}} {
		ended := make(chan struct{})
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		go func() { defer close(ended); _ = server.ActivateAndServe() }()
		<-started
		t.Cleanup(func() {
			_ = server.Shutdown()
			<-ended
		})
	}
	return conn.LocalAddr().String()
}

func record(t testing.TB, text string) wire.RR {
	t.Helper()
	r, err := wire.NewRR(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
