package dns_test

import (
	"testing"

	wire "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/network/dns"
)

func at(address, host string, ready bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
	if host != "" {
		e.Hostname = &host
	}
	return e
}

func named(name string, number int32) discoveryv1.EndpointPort {
	tcp := corev1.ProtocolTCP
	return discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: &tcp}
}

func TestAServiceWithAnAddressIsAnswered(t *testing.T) {
	s := newStage(t, dns.Options{})
	web := s.service("web", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "https", Port: 443}}})
	address := web.Spec.ClusterIP
	s.expect("web.default.svc.cluster.local.", wire.TypeA, wire.RcodeSuccess, address)
	s.expect("WEB.default.svc.Cluster.Local.", wire.TypeA, wire.RcodeSuccess, address)
	s.expect("web.default.svc.cluster.local.", wire.TypeAAAA, wire.RcodeSuccess)
	s.expect("_http._tcp.web.default.svc.cluster.local.", wire.TypeSRV, wire.RcodeSuccess, "0 100 80 web.default.svc.cluster.local.")
	s.expect("_http._tcp.web.default.svc.cluster.local.", wire.TypeA, wire.RcodeSuccess)
	s.expect("_http._udp.web.default.svc.cluster.local.", wire.TypeSRV, wire.RcodeNameError)
	s.expect("_tcp.web.default.svc.cluster.local.", wire.TypeSRV, wire.RcodeSuccess)
	s.expect("web.default.svc.cluster.local.", wire.TypeSRV, wire.RcodeSuccess,
		"0 100 80 web.default.svc.cluster.local.", "0 100 443 web.default.svc.cluster.local.")
	reverse, _ := wire.ReverseAddr(address)
	s.expect(reverse, wire.TypePTR, wire.RcodeSuccess, "web.default.svc.cluster.local.")
}

func TestAHeadlessServiceAnswersItsReadyEndpoints(t *testing.T) {
	s := newStage(t, dns.Options{})
	s.service("db", corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: "sql", Port: 5432}}})
	s.expect("db.default.svc.cluster.local.", wire.TypeA, wire.RcodeNameError)
	s.slice("db", discoveryv1.AddressTypeIPv4, []discoveryv1.EndpointPort{named("sql", 5432)}, at("10.1.0.1", "db-0", true), at("10.1.0.2", "", true), at("10.1.0.3", "db-2", false))
	s.slice("db", discoveryv1.AddressTypeIPv6, []discoveryv1.EndpointPort{named("sql", 5432)}, at("fd00::1", "db-0", true))
	s.expect("db.default.svc.cluster.local.", wire.TypeA, wire.RcodeSuccess, "10.1.0.1", "10.1.0.2")
	s.expect("db.default.svc.cluster.local.", wire.TypeAAAA, wire.RcodeSuccess, "fd00::1")
	s.expect("db-0.db.default.svc.cluster.local.", wire.TypeA, wire.RcodeSuccess, "10.1.0.1")
	s.expect("db-0.db.default.svc.cluster.local.", wire.TypeAAAA, wire.RcodeSuccess, "fd00::1")
	s.expect("10-1-0-2.db.default.svc.cluster.local.", wire.TypeA, wire.RcodeSuccess, "10.1.0.2")
	s.expect("db-2.db.default.svc.cluster.local.", wire.TypeA, wire.RcodeNameError)
	s.expect("_sql._tcp.db.default.svc.cluster.local.", wire.TypeSRV, wire.RcodeSuccess,
		"0 100 5432 db-0.db.default.svc.cluster.local.", "0 100 5432 10-1-0-2.db.default.svc.cluster.local.")
	s.expect("1.0.1.10.in-addr.arpa.", wire.TypePTR, wire.RcodeSuccess, "db-0.db.default.svc.cluster.local.")
	six, _ := wire.ReverseAddr("fd00::1")
	s.expect(six, wire.TypePTR, wire.RcodeSuccess, "db-0.db.default.svc.cluster.local.")
}

func TestEndpointsOfAServiceWithAnAddressHaveNoReverseName(t *testing.T) {
	s := newStage(t, dns.Options{})
	s.service("web", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}})
	s.slice("web", discoveryv1.AddressTypeIPv4, []discoveryv1.EndpointPort{named("", 80)}, at("10.1.0.1", "", true))
	s.expect("1.0.1.10.in-addr.arpa.", wire.TypePTR, wire.RcodeServerFailure) // no upstream server is configured
}

func TestEndpointsAreKeptOnlyOfServicesThatNeedThem(t *testing.T) {
	s := newStage(t, dns.Options{})
	s.service("db", corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone})
	s.managed("db", "10.1.0.2", false)
	s.managed("db", "10.1.0.1", true)
	s.slice("other", discoveryv1.AddressTypeIPv4, nil, at("10.1.0.3", "", true)) // a later version for the informer that must not select the first slice
	if n := s.server.Slices("default/db"); n != 1 {
		s.Errorf("the server has %d slices of db, want 1", n)
	}
	s.expect("db.default.svc.cluster.local.", wire.TypeA, wire.RcodeSuccess, "10.1.0.1")
}

func TestNamesThatExistWithoutRecordsAreNotDenied(t *testing.T) {
	s := newStage(t, dns.Options{})
	for name, code := range map[string]int{
		"cluster.local.":                        wire.RcodeSuccess,
		"svc.cluster.local.":                    wire.RcodeSuccess,
		"default.svc.cluster.local.":            wire.RcodeSuccess,
		"nowhere.svc.cluster.local.":            wire.RcodeNameError,
		"none.default.svc.cluster.local.":       wire.RcodeNameError,
		"a.b.c.d.e.svc.cluster.local.":          wire.RcodeNameError,
		"pod.cluster.local.":                    wire.RcodeSuccess,
		"other.cluster.local.":                  wire.RcodeNameError,
		"no-address.default.pod.cluster.local.": wire.RcodeNameError,
	} {
		reply := s.ask(name, wire.TypeA)
		if reply.Rcode != code || len(reply.Answer) != 0 {
			t.Errorf("%s: %v", name, reply)
		}
		soa, ok := reply.Ns[0].(*wire.SOA)
		if !ok || soa.Hdr.Name != "cluster.local." || soa.Minttl != 5 || !reply.Authoritative {
			t.Errorf("%s: the SOA is %v", name, reply.Ns)
		}
	}
}

func TestWhatElseTheZoneHas(t *testing.T) {
	s := newStage(t, dns.Options{})
	s.expect("dns-version.cluster.local.", wire.TypeTXT, wire.RcodeSuccess, `"1.1.0"`)
	s.expect("cluster.local.", wire.TypeNS, wire.RcodeSuccess, "ns.dns.cluster.local.")
	s.expect("10-2-3-4.default.pod.cluster.local.", wire.TypeA, wire.RcodeSuccess, "10.2.3.4")
	s.expect("fd00--7.default.pod.cluster.local.", wire.TypeAAAA, wire.RcodeSuccess, "fd00::7")
	s.expect("10-2-3-4.nowhere.pod.cluster.local.", wire.TypeA, wire.RcodeNameError)
}

func TestAnswersFollowWhatIsWritten(t *testing.T) {
	s := newStage(t, dns.Options{})
	s.service("db", corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 1}}})
	s.slice("db", discoveryv1.AddressTypeIPv4, nil, at("10.1.0.1", "", true))
	s.expect("db.default.svc.cluster.local.", wire.TypeA, wire.RcodeSuccess, "10.1.0.1")
	if err := s.kube.CoreV1().Services("default").Delete(t.Context(), "db", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again := s.service("other", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}) // a later version
	s.expect("db.default.svc.cluster.local.", wire.TypeA, wire.RcodeNameError)
	s.expect("other.default.svc.cluster.local.", wire.TypeA, wire.RcodeSuccess, again.Spec.ClusterIP)
}

func TestAnAliasIsFollowed(t *testing.T) {
	outside := upstreamServer(t, func(m *wire.Msg) *wire.Msg {
		reply := new(wire.Msg).SetReply(m)
		reply.Answer = []wire.RR{record(t, "www.example.com. 60 IN A 192.0.2.7")}
		return reply
	})
	s := newStage(t, dns.Options{Upstreams: []string{outside}})
	s.service("out", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "www.example.com"})
	s.service("in", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "web.default.svc.cluster.local"})
	s.service("round", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "round.default.svc.cluster.local"})
	web := s.service("web", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}})
	s.expect("out.default.svc.cluster.local.", wire.TypeA, wire.RcodeSuccess, "www.example.com.", "192.0.2.7")
	s.expect("out.default.svc.cluster.local.", wire.TypeCNAME, wire.RcodeSuccess, "www.example.com.")
	s.expect("in.default.svc.cluster.local.", wire.TypeA, wire.RcodeSuccess, "web.default.svc.cluster.local.", web.Spec.ClusterIP)
	if reply := s.ask("round.default.svc.cluster.local.", wire.TypeA); len(reply.Answer) > dns.Aliases+1 {
		t.Errorf("an alias of itself is answered with %d records", len(reply.Answer))
	}
}
