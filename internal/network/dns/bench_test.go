package dns_test

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	wire "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/network/dns"
)

// BenchmarkQuestions asks for the addresses of services over loopback, 32 questions at a time, and reports the p99
// latency. Clients and server share the processors.
func BenchmarkQuestions(b *testing.B) {
	const askers, names = 32, 100
	var questions [][]byte
	s := newStage(b, dns.Options{})
	for i := range names {
		name := fmt.Sprintf("web-%d", i)
		s.service(name, corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}})
		q, err := new(wire.Msg).SetQuestion(name+".default.svc.cluster.local.", wire.TypeA).Pack()
		if err != nil {
			b.Fatal(err)
		}
		questions = append(questions, q)
	}
	var next atomic.Int64
	took := make([][]time.Duration, askers)
	var all sync.WaitGroup
	b.ResetTimer()
	for i := range askers {
		all.Go(func() {
			c, err := net.Dial("udp", s.address)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			buffer := make([]byte, 1500)
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				began := time.Now()
				if _, err := c.Write(questions[n%names]); err != nil {
					b.Error(err)
					return
				}
				if _, err := c.Read(buffer); err != nil {
					b.Error(err)
					return
				}
				took[i] = append(took[i], time.Since(began))
			}
		})
	}
	all.Wait()
	b.StopTimer()
	every := slices.Concat(took...)
	slices.Sort(every)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "questions/s")
	b.ReportMetric(float64(every[len(every)*99/100].Microseconds()), "p99-µs")
}
