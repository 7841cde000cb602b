package dns_test

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	wire "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/millrace/millrace/internal/network/dns"
)

// answering returns a server that answers each question with an address, and counts.
func answering(t *testing.T, address string, count *atomic.Int32) string {
	return upstreamServer(t, func(m *wire.Msg) *wire.Msg {
		count.Add(1)
		reply := new(wire.Msg).SetReply(m)
		if m.Question[0].Qtype == wire.TypeA {
			reply.Answer = []wire.RR{record(t, m.Question[0].Name+" 300 IN A "+address)}
		}
		return reply
	})
}

func TestOtherNamesAreForwardedAndKept(t *testing.T) {
	var asked atomic.Int32
	s := newStage(t, dns.Options{Upstreams: []string{answering(t, "192.0.2.1", &asked)}})
	before := asked.Load()
	for range 5 {
		s.expect("www.example.com.", wire.TypeA, wire.RcodeSuccess, "192.0.2.1")
	}
	if n := asked.Load() - before; n > 2 { // and perhaps a probe
		t.Errorf("the server was asked %d times", n)
	}
}

func TestADomainHasServersOfItsOwn(t *testing.T) {
	var all, stub atomic.Int32
	s := newStage(t, dns.Options{
		Upstreams: []string{answering(t, "192.0.2.1", &all)},
		Stubs:     map[string][]string{"corp.example.": {answering(t, "192.0.2.2", &stub)}},
	})
	s.expect("a.corp.example.", wire.TypeA, wire.RcodeSuccess, "192.0.2.2")
	s.expect("corp.example.", wire.TypeA, wire.RcodeSuccess, "192.0.2.2")
	s.expect("acorp.example.", wire.TypeA, wire.RcodeSuccess, "192.0.2.1")
}

func TestTheNextServerIsAskedIfOneFails(t *testing.T) {
	var asked atomic.Int32
	refuses := upstreamServer(t, func(m *wire.Msg) *wire.Msg { return new(wire.Msg).SetRcode(m, wire.RcodeServerFailure) })
	s := newStage(t, dns.Options{Upstreams: []string{refuses, answering(t, "192.0.2.1", &asked)}})
	s.expect("www.example.com.", wire.TypeA, wire.RcodeSuccess, "192.0.2.1")
}

// More questions wait for a silent server than may wait, and the cluster's names are answered all the same.
func TestASilentServerKeepsNobodyElseWaiting(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	silent := upstreamServer(t, func(*wire.Msg) *wire.Msg { <-release; return nil })
	s := newStage(t, dns.Options{Upstreams: []string{silent}, Pending: 50})
	s.service("web", corev1.ServiceSpec{ClusterIP: "10.96.0.99", Ports: []corev1.ServicePort{{Port: 1}}})
	conn, err := net.Dial("udp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i := range 500 {
		packed, err := new(wire.Msg).SetQuestion(fmt.Sprintf("n%d.example.com.", i), wire.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(packed); err != nil {
			t.Fatal(err)
		}
	}
	// Those beyond the limit are refused at once, so that clients ask somebody else.
	answer := make([]byte, wire.MaxMsgSize)
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	n, err := conn.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	var refused wire.Msg
	if err := refused.Unpack(answer[:n]); err != nil || refused.Rcode != wire.RcodeServerFailure {
		t.Errorf("one too many is answered with %v, %v", refused.MsgHdr, err)
	}
	m := new(wire.Msg).SetQuestion("web.default.svc.cluster.local.", wire.TypeA)
	for range 100 {
		if reply := s.exchange(m, "tcp"); reply.Rcode != wire.RcodeSuccess || len(reply.Answer) != 1 {
			t.Fatalf("the cluster's name is answered with %v", reply)
		}
	}
}

func TestAServerThatLeadsBackIsNotAsked(t *testing.T) {
	var ours atomic.Pointer[string]
	back := upstreamServer(t, func(m *wire.Msg) *wire.Msg {
		to := ours.Load()
		if to == nil {
			return nil
		}
		reply, _, err := new(wire.Client).Exchange(m, *to)
		if err != nil {
			return nil
		}
		return reply
	})
	s := newStage(t, dns.Options{Upstreams: []string{}})
	ours.Store(&s.address)
	if !s.server.Probe(t.Context(), back) {
		t.Error("the loop was not found")
	}
	var asked atomic.Int32
	if s.server.Probe(t.Context(), answering(t, "192.0.2.1", &asked)) {
		t.Error("a loop was found where there is none")
	}
}

func TestALargeAnswerIsCutOverUDPAndWholeOverTCP(t *testing.T) {
	s := newStage(t, dns.Options{})
	s.service("big", corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 1}}})
	var all []discoveryv1.Endpoint
	for i := range 200 {
		all = append(all, at(fmt.Sprintf("10.1.0.%d", i+1), "", true))
	}
	s.slice("big", discoveryv1.AddressTypeIPv4, nil, all...)
	m := new(wire.Msg).SetQuestion("big.default.svc.cluster.local.", wire.TypeA)
	if reply := s.exchange(m, "udp"); !reply.Truncated || len(reply.Answer) > 30 { // 16 bytes each
		t.Errorf("without EDNS: truncated %v, %d records", reply.Truncated, len(reply.Answer))
	}
	if reply := s.exchange(m, "tcp"); reply.Truncated || len(reply.Answer) != 200 {
		t.Errorf("over TCP: truncated %v, %d records", reply.Truncated, len(reply.Answer))
	}
	m.SetEdns0(4096, false)
	if reply := s.exchange(m, "udp"); !reply.Truncated || len(reply.Answer) < 40 || reply.IsEdns0() == nil {
		t.Errorf("with EDNS: truncated %v, %d records, %v", reply.Truncated, len(reply.Answer), reply.IsEdns0())
	}
}

func TestWhatIsNoOrdinaryQuestionIsRefused(t *testing.T) {
	s := newStage(t, dns.Options{})
	future := new(wire.Msg).SetQuestion("cluster.local.", wire.TypeA)
	future.SetEdns0(1232, false)
	future.IsEdns0().SetVersion(1)
	update := new(wire.Msg).SetUpdate("cluster.local.")
	chaos := new(wire.Msg).SetQuestion("version.bind.", wire.TypeTXT)
	chaos.Question[0].Qclass = wire.ClassCHAOS
	transfer := new(wire.Msg).SetQuestion("cluster.local.", wire.TypeAXFR)
	for _, c := range []struct {
		m    *wire.Msg
		code int
	}{{future, wire.RcodeBadVers}, {update, wire.RcodeNotImplemented}, {chaos, wire.RcodeRefused}, {transfer, wire.RcodeRefused}} {
		if reply := s.exchange(c.m, "udp"); reply.Rcode != c.code {
			t.Errorf("%v: %s", c.m.Question, wire.RcodeToString[reply.Rcode])
		}
	}
}
