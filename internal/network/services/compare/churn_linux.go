package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// churnDuration is how long endpoints change, and connections are counted.
	churnDuration = 10 * time.Second
	// writers is how many goroutines write changes.
	writers = 16
	// probeService is the service whose delay is measured. Its only endpoint is one of probeAddresses, which answer
	// with their own address.
	probeService = "probe"
)

var probeAddresses = [2]string{"10.0.0.2", "10.0.0.3"}

// load is the measurements under load.
type load struct {
	delays    []time.Duration // from the write of the probe's endpoint to a connection that reaches it
	written   int
	cpu       time.Duration
	connects  int
	connected []time.Duration
}

const loadHead = "changes/s\tuntil rule ms p50\tp99\tCPU ms a change\tconnections/s\tp99 ms"

func (l load) String() string {
	at := func(all []time.Duration, share int) float64 {
		if len(all) == 0 {
			return 0
		}
		slices.Sort(all)
		return float64(all[len(all)*share/100].Microseconds()) / 1000
	}
	return fmt.Sprintf("%.0f\t%.1f\t%.1f\t%.3f\t%.0f\t%.2f", float64(l.written)/churnDuration.Seconds(), at(l.delays, 50), at(l.delays, 99),
		float64(l.cpu.Microseconds())/1000/float64(max(l.written, 1)), float64(l.connects)/churnDuration.Seconds(), at(l.connected, 99))
}

// prober moves the probe's endpoint and connects to the probe's service.
type prober struct {
	server  *server
	address string // of the service
}

// newProber creates the probe's service and what answers.
func (s *server) newProber(ctx context.Context) (*prober, error) {
	for _, a := range probeAddresses {
		l, err := net.Listen("tcp", net.JoinHostPort(a, "8080"))
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, a) // a client that has gone reads nothing
				c.Close()
			}
		}()
	}
	made, err := s.kube.CoreV1().Services(namespace).Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: probeService}, Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	_, err = s.kube.DiscoveryV1().EndpointSlices(namespace).Create(ctx, probeSlice(0), metav1.CreateOptions{})
	return &prober{server: s, address: net.JoinHostPort(made.Spec.ClusterIP, "80")}, err
}

func probeSlice(which int) *discoveryv1.EndpointSlice {
	s := slice(0, 1)
	s.Name, s.Labels[discoveryv1.LabelServiceName] = probeService+"-1", probeService
	s.Endpoints[0].Addresses = []string{probeAddresses[which]}
	return s
}

// connect connects once, and returns which address answers.
func (p *prober) connect() string {
	c, err := net.DialTimeout("tcp", p.address, time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	text, _ := io.ReadAll(c)
	return string(text)
}

// moveEndpoint moves the probe's endpoint, and returns the time until a connection reaches it at its new address.
func (p *prober) moveEndpoint(ctx context.Context, to int) (time.Duration, error) {
	began := time.Now()
	if _, err := p.server.kube.DiscoveryV1().EndpointSlices(namespace).Update(ctx, probeSlice(to), metav1.UpdateOptions{}); err != nil {
		return 0, err
	}
	for p.connect() != probeAddresses[to] {
		if time.Since(began) > time.Minute {
			return 0, fmt.Errorf("the service %s does not lead to %s within a minute", probeService, probeAddresses[to])
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// underLoad measures a proxy while endpoints change at a rate, and then how fast connections are made.
func (p *prober) underLoad(ctx context.Context, pid int, o options) (l load, err error) {
	if _, err := p.moveEndpoint(ctx, 1); err != nil { // the proxy knows the service
		return l, err
	}
	before := cpu(pid)
	var written atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	began := time.Now()
	for i := range writers {
		all.Go(func() {
			for n := i; time.Since(began) < churnDuration && ctx.Err() == nil; n += writers {
				if wait := time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(o.rate))); wait > 0 {
					time.Sleep(wait)
				}
				endpoints := o.endpoints - n/o.services%2 // each service loses an endpoint, and gets it back next time
				if _, err := p.server.kube.DiscoveryV1().EndpointSlices(namespace).Update(ctx, slice(n%o.services, endpoints-1), metav1.UpdateOptions{}); err != nil {
					failed.Store(&err)
					return
				}
				written.Add(1)
			}
		})
	}
	for to := 0; time.Since(began) < churnDuration && err == nil; to = 1 - to {
		var took time.Duration
		took, err = p.moveEndpoint(ctx, to)
		l.delays = append(l.delays, took)
	}
	all.Wait()
	if e := failed.Load(); e != nil {
		return l, *e
	}
	l.written, l.cpu = int(written.Load()), cpu(pid)-before
	if err == nil {
		p.connections(ctx, &l)
	}
	return l, err
}

// connections connects as often as possible.
func (p *prober) connections(ctx context.Context, l *load) {
	var all sync.WaitGroup
	var mu sync.Mutex
	began := time.Now()
	for range askers {
		all.Go(func() {
			var took []time.Duration
			for time.Since(began) < churnDuration && ctx.Err() == nil {
				start := time.Now()
				if p.connect() != "" {
					took = append(took, time.Since(start))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			l.connected, l.connects = append(l.connected, took...), l.connects+len(took)
		})
	}
	all.Wait()
}
