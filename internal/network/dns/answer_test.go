package dns

import (
	"context"
	"strings"
	"testing"

	wire "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/loop"
)

// filled returns an answerer whose informers have the objects.
func filled(t testing.TB, objects ...runtime.Object) *answerer {
	t.Helper()
	clients := loop.ClientsFor(fake.NewClientset(objects...))
	server, err := New(Options{Clients: clients, Listen: []string{"127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- clients.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := server.Synced(ctx); err != nil {
		t.Fatal(err)
	}
	return server.newAnswerer()
}

func clusterService(name string, spec corev1.ServiceSpec) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: spec}
}

// ask answers one request, and reads the reply as a client does.
func (a *answerer) ask(t testing.TB, request *wire.Msg) *wire.Msg {
	t.Helper()
	packed, err := request.Pack()
	if err != nil {
		t.Fatal(err)
	}
	var q query
	if !q.parse(packed) {
		t.Fatalf("%v cannot be read", request)
	}
	reply, _ := a.answer(&q, q.datagramSize())
	m := new(wire.Msg)
	if err := m.Unpack(reply); err != nil {
		t.Fatalf("%v has a malformed reply: %v", request, err)
	}
	return m
}

func TestNothingIsDeniedBeforeTheFirstList(t *testing.T) {
	server, err := New(Options{Clients: loop.ClientsFor(fake.NewClientset()), Listen: []string{"127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	reply := server.newAnswerer().ask(t, new(wire.Msg).SetQuestion("web.default.svc.cluster.local.", wire.TypeA))
	if reply.Rcode != wire.RcodeServerFailure {
		t.Errorf("before the informers have filled: %v", reply)
	}
}

// A client may choose upper and lower case at random, and compare them to detect forged replies.
func TestTheCaseOfTheQuestionIsKept(t *testing.T) {
	a := filled(t, clusterService("web", corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.1"}}))
	const name = "wEb.DEFAULT.svc.ClusTer.locaL."
	reply := a.ask(t, new(wire.Msg).SetQuestion(name, wire.TypeA))
	if reply.Question[0].Name != name || len(reply.Answer) != 1 || reply.Answer[0].Header().Name != name {
		t.Errorf("the reply is %v", reply)
	}
}

func TestARepliesHeaderFollowsItsRequest(t *testing.T) {
	a := filled(t, clusterService("web", corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.1"}}))
	request := new(wire.Msg).SetQuestion("web.default.svc.cluster.local.", wire.TypeA)
	request.CheckingDisabled = true
	request.SetEdns0(4096, true)
	for _, recursion := range []bool{true, false} {
		request.Id, request.RecursionDesired = wire.Id(), recursion
		reply := a.ask(t, request)
		h := reply.MsgHdr
		if h.Id != request.Id || !h.Response || !h.Authoritative || h.RecursionDesired != recursion || !h.RecursionAvailable || !h.CheckingDisabled || h.Truncated || h.AuthenticatedData {
			t.Errorf("the header is %v", h)
		}
		if opt := reply.IsEdns0(); opt == nil || !opt.Do() || opt.UDPSize() != largeSize || opt.Version() != 0 {
			t.Errorf("OPT is %v", opt)
		}
	}
	other := new(wire.Msg).SetQuestion("www.example.com.", wire.TypeA)
	other.RecursionDesired = false
	if reply := a.ask(t, other); reply.Rcode != wire.RcodeRefused {
		t.Errorf("a name outside the cluster, without recursion: %v", reply)
	}
}

// The name of an ExternalName service may have labels that no DNS message can contain.
func TestANameThatCannotBeWrittenIsAFailure(t *testing.T) {
	long := strings.Repeat("a", 64) + ".example.com"
	a := filled(t, clusterService("out", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: long}))
	reply := a.ask(t, new(wire.Msg).SetQuestion("out.default.svc.cluster.local.", wire.TypeCNAME))
	if reply.Rcode != wire.RcodeServerFailure || len(reply.Answer) != 0 {
		t.Errorf("the reply is %v", reply)
	}
}

// At 20,000 questions a second, garbage would be most of the process's memory.
func TestUsualAnswersLeaveNoGarbage(t *testing.T) {
	a := filled(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, clusterService("web", corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.1", "fd00::1"}}))
	for _, name := range []string{"web.default.svc.cluster.local.", "www.example.com.default.svc.cluster.local.", "www.example.com.cluster.local."} {
		for _, kind := range []uint16{wire.TypeA, wire.TypeAAAA, wire.TypeTXT} {
			request := new(wire.Msg).SetQuestion(name, kind)
			request.SetEdns0(largeSize, false)
			packed, err := request.Pack()
			if err != nil {
				t.Fatal(err)
			}
			var q query
			if n := testing.AllocsPerRun(1000, func() {
				q.parse(packed)
				if reply, _ := a.answer(&q, q.datagramSize()); reply == nil {
					t.Fatal("no reply")
				}
			}); n > 0 {
				t.Errorf("an answer to %s %s allocates %v times", name, wire.TypeToString[kind], n)
			}
		}
	}
}
