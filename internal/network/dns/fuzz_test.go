package dns_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	wire "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/millrace/millrace/internal/network/dns"
)

// Whatever is asked, the answer can be read, is not longer than the client accepts, and leaves nothing in the memory
// for the next one.
func FuzzAnswers(f *testing.F) {
	s := newStage(f, dns.Options{})
	s.service("web", corev1.ServiceSpec{ClusterIP: "10.96.7.7", Ports: []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "tls", Port: 443}}})
	s.service("pods", corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone})
	s.service("else", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "web.default.svc.cluster.local"})
	s.service("loop", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "loop.default.svc.cluster.local"})
	var many []discoveryv1.Endpoint // more than fit into a plain datagram
	for i := range 60 {
		many = append(many, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.1.2.%d", i)}})
	}
	s.slice("pods", discoveryv1.AddressTypeIPv4, nil, many...)
	for _, name := range []string{
		"web.default.svc", "pods.default.svc", "10-1-2-3.pods.default.svc", "else.default.svc", "loop.default.svc", "_http._tcp.web.default.svc", "default.svc",
		"fd00--1.default.pod", "dns-version", "ns.dns",
	} {
		for _, kind := range []uint16{wire.TypeA, wire.TypeAAAA, wire.TypeSRV, wire.TypeANY, wire.TypeTXT} {
			f.Add(packed(f, new(wire.Msg).SetQuestion(name+".cluster.local.", kind)), uint16(512))
		}
	}
	f.Add(packed(f, new(wire.Msg).SetQuestion("7.7.96.10.in-addr.arpa.", wire.TypePTR).SetEdns0(1232, true)), uint16(1232))
	known := packed(f, new(wire.Msg).SetQuestion("web.default.svc.cluster.local.", wire.TypeA))
	answer := s.server.Answerer()
	want := bytes.Clone(answer(known, 512))
	f.Fuzz(func(t *testing.T, request []byte, limit uint16) {
		limit = max(limit, wire.MinMsgSize)
		reply := answer(request, int(limit))
		if reply == nil {
			return
		}
		m := new(wire.Msg)
		if err := m.Unpack(reply); err != nil || !m.Response || m.Id != binary.BigEndian.Uint16(request) {
			t.Fatalf("the reply to %x is malformed (%v): %v", request, err, m)
		}
		if len(reply) > int(limit) {
			t.Errorf("the reply to %x has %d bytes, and the limit is %d", request, len(reply), limit)
		}
		if again := answer(known, 512); !bytes.Equal(again, want) {
			t.Errorf("after %x a question is answered with %x, and before with %x", request, again, want)
		}
	})
}

func packed(t testing.TB, m *wire.Msg) []byte {
	t.Helper()
	m.Id = 1
	out, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What --stub-domain accepts is a domain that can be asked for, and servers that can be dialled.
func FuzzStubs(f *testing.F) {
	for _, text := range []string{
		"example.com=10.0.0.1", "Example.com.=10.0.0.1:5353,fd00::1", `a\.b=[fd00::1]:53`, "=", "a=", "=10.0.0.1", "a=fe80::1%eth0", "a..b=10.0.0.1", strings.Repeat("\x95", 60) + "=0.0.0.0", "0=::%]", `\0\=[::]:0`, "b\u00fccher.example=10.0.0.1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		domain, servers, err := dns.ParseStub(text)
		if err != nil {
			return
		}
		if _, err := new(wire.Msg).SetQuestion(domain, wire.TypeA).Pack(); err != nil || domain != strings.ToLower(domain) || !strings.HasSuffix(domain, ".") {
			t.Errorf("%q has the domain %q: %v", text, domain, err)
		}
		for _, server := range servers {
			host, port, err := net.SplitHostPort(server)
			if _, err2 := netip.ParseAddr(host); err != nil || err2 != nil || port == "" {
				t.Errorf("%q has the server %q: %v, %v", text, server, err, err2)
			}
		}
	})
}
