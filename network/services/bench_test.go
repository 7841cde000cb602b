//go:build linux

package services

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/network/internal/nettest"
	"github.com/millrace/millrace/network/nft"
)

// many are services with ten endpoints each.
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

// alone is a proxy without informers, in a namespace of its own.
func alone(b *testing.B) (*nettest.Namespace, *Proxy) {
	n := nettest.New(b)
	p, err := New(Options{Clients: loop.ClientsFor(fake.NewClientset()), Node: "here"})
	if err != nil {
		b.Fatal(err)
	}
	n.Do(p.open)
	b.Cleanup(func() { p.conn.Close() })
	p.doubt = true
	return n, p
}

// put compiles services into the ledger and commits what differs.
func (p *Proxy) put(all []*service, slices []*slice) error {
	var d difference
	for i, s := range all {
		change, _ := p.ledger.put(s.key, compile(s, slices[i:i+1], p.node, p.ledger.places(s.key)))
		d.gone, d.fresh = append(d.gone, change.gone...), append(d.fresh, change.fresh...)
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
		p.ledger, p.doubt = newLedger(), true
		b.StartTimer()
		n.Do(func() error { return p.put(all, slices) })
	}
}

// BenchmarkOneEndpoint takes one endpoint of one of 10,000 services away, and brings it back.
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

// BenchmarkFullPass compares 10,000 services with the kernel, where nothing differs.
func BenchmarkFullPass(b *testing.B) {
	all, slices := many(10000)
	n, p := alone(b)
	n.Do(func() error { return p.put(all, slices) })
	for b.Loop() {
		var batch nft.Batch
		for _, k := range p.kernels {
			if err := k.compare(&batch, p.ledger); err != nil {
				b.Fatal(err)
			}
		}
		if batch.Len() > 0 {
			b.Fatalf("%d messages to write", batch.Len())
		}
	}
}
