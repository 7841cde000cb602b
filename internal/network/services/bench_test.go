//go:build linux

package services

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/internal/network/internal/nettest"
	"github.com/millrace/millrace/internal/network/nft"
	"github.com/millrace/millrace/loop"
)

// many returns services with ten endpoints each.
func many(n int) (all []*service, slices []*slice) {
	for i := range n {
		name := fmt.Sprint("web-", i)
		all = append(all, serviceOf(svc(name, netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}).String(), nil)))
		var endpoints []discoveryv1.Endpoint
		for j := range 10 {
			endpoints = append(endpoints, on("there", netip.AddrFrom4([4]byte{10, 128 + byte(j), byte(i >> 8), byte(i)}).String()))
		}
		slices = append(slices, sliceOf(slc(name, corev1.ProtocolTCP, endpoints...)))
	}
	return all, slices
}

// alone returns a proxy without informers, in a new namespace.
func alone(b *testing.B) (*nettest.Namespace, *Proxy) {
	n := nettest.New(b)
	p, err := New(Options{Clients: loop.ClientsFor(fake.NewClientset()), Node: "here"})
	if err != nil {
		b.Fatal(err)
	}
	n.Do(p.open)
	b.Cleanup(func() { p.conn.Close() })
	p.needsCompare = true
	return n, p
}

// put compiles services and commits the differences.
func (p *Proxy) put(all []*service, slices []*slice) error {
	var d difference
	for i, s := range all {
		change, _ := p.desired.put(s.key, compile(s, slices[i:i+1], p.node, p.desired.endpointNumbers(s.key)))
		d.removed, d.added = append(d.removed, change.removed...), append(d.added, change.added...)
	}
	return p.commit(d)
}

// BenchmarkFirstSync writes 10,000 services with ten endpoints each into empty tables.
func BenchmarkFirstSync(b *testing.B) {
	all, slices := many(10000)
	n, p := alone(b)
	for b.Loop() {
		b.StopTimer()
		n.Do(Remove)
		p.desired, p.needsCompare = newDesiredTables(), true
		b.StartTimer()
		n.Do(func() error { return p.put(all, slices) })
	}
}

// BenchmarkOneEndpoint removes one endpoint of one of 10,000 services, and adds it again.
func BenchmarkOneEndpoint(b *testing.B) {
	all, slices := many(10000)
	n, p := alone(b)
	n.Do(func() error { return p.put(all, slices) })
	whole := slices[5000]
	less := *whole
	less.endpoints = whole.endpoints[1:]
	i := 0
	for b.Loop() {
		s := &less
		if i++; i%2 == 0 {
			s = whole
		}
		if err := p.put(all[5000:5001], []*slice{s}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFullPass compares 10,000 services with the kernel's tables, without differences.
func BenchmarkFullPass(b *testing.B) {
	all, slices := many(10000)
	n, p := alone(b)
	n.Do(func() error { return p.put(all, slices) })
	for b.Loop() {
		var batch nft.Batch
		for _, k := range p.kernelTables {
			if err := k.compare(&batch, p.desired); err != nil {
				b.Fatal(err)
			}
		}
		if batch.Len() > 0 {
			b.Fatalf("%d messages to write", batch.Len())
		}
	}
}
