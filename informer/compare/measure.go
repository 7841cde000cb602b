package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/cputime"
)

// measure runs one candidate and prints its result as JSON.
func measure(name, address, format, profile string, pods int) error {
	config := &rest.Config{Host: address}
	if format == "json" {
		config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	s, err := newSubject(name, clientset)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	m := &measurement{subject: s, address: address, pods: pods, profile: profile, result: Result{Candidate: name}}
	running.Go(func() { m.peak(ctx) })
	m.first(ctx, &running)
	steps := []func() error{m.settled, m.oneHandler, m.latency, m.index, m.fiftyHandlers}
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(m.result)
}

type measurement struct {
	subject subject
	address string
	pods    int
	profile string // a directory, or empty
	result  Result
	reached atomic.Bool // the first list is complete

	handled atomic.Int64
}

// peak samples the heap until the first list is complete.
func (m *measurement) peak(ctx context.Context) {
	var stats runtime.MemStats
	for ctx.Err() == nil && !m.reached.Load() {
		runtime.ReadMemStats(&stats)
		m.result.PeakHeap = max(m.result.PeakHeap, stats.HeapAlloc)
		time.Sleep(5 * time.Millisecond)
	}
}

func (m *measurement) first(ctx context.Context, running *sync.WaitGroup) {
	began := time.Now()
	running.Go(func() { m.subject.run(ctx) })
	_ = m.subject.synced(ctx)
	m.result.Sync = time.Since(began)
	m.reached.Store(true)
	m.result.PeakRSS = peakRSS()
}

func (m *measurement) settled() error {
	var stats runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	m.result.Settled = stats.HeapAlloc
	return nil
}

const burst = 20_000

// oneHandler requests many writes of pods at once, and measures the CPU time until a handler has received all of them.
func (m *measurement) oneHandler() error {
	m.subject.handle(func(string) { m.handled.Add(1) })
	time.Sleep(time.Second) // until the initial objects have been handled
	before := cputime.Process()
	if err := m.writeAndWait(0, burst, 1); err != nil {
		return err
	}
	m.result.EventCPU = (cputime.Process() - before) / burst
	return nil
}

func (m *measurement) latency() error {
	var took []time.Duration
	for i := range 300 {
		began := time.Now()
		if err := m.writeAndWait(i, 1, 1); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	m.result.Latency50, m.result.Latency99 = took[len(took)/2].Round(time.Microsecond), took[len(took)*99/100].Round(time.Microsecond)
	return nil
}

func (m *measurement) index() error {
	node := func(n int) string { return fmt.Sprintf("node-%04d.cluster.example", n) }
	const nodes = 200
	began := time.Now()
	for n := range nodes {
		m.result.ObjectsFound += m.subject.byNode(node(n))
	}
	m.result.IndexCold = time.Since(began) / nodes
	began = time.Now()
	const rounds = 2000
	for range rounds {
		m.subject.byNode(node(7))
	}
	m.result.IndexWarm = time.Since(began) / rounds
	return nil
}

func (m *measurement) fiftyHandlers() error {
	for range 49 {
		m.subject.handle(func(string) { m.handled.Add(1) })
	}
	time.Sleep(5 * time.Second) // until the initial objects have been handled
	if m.profile != "" {
		file, err := os.Create(filepath.Join(m.profile, m.result.Candidate+".pprof"))
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	before, began := cputime.Process(), time.Now()
	if err := m.writeAndWait(burst, burst, 50); err != nil {
		return err
	}
	m.result.Fifty, m.result.FiftyCPU = time.Since(began)/burst, (cputime.Process()-before)/burst
	return nil
}

// writeAndWait requests writes of pods and waits until every handler has received each of them.
func (m *measurement) writeAndWait(from, count, handlers int) error {
	m.handled.Store(0)
	answer, err := http.Post(fmt.Sprintf("%s/touch?from=%d&count=%d", m.address, from, count), "", strings.NewReader(""))
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	deadline := time.Now().Add(2 * time.Minute)
	for want := int64(count) * int64(handlers); m.handled.Load() < want; {
		if time.Now().After(deadline) {
			return fmt.Errorf("handlers heard of %d of %d writes", m.handled.Load(), want)
		}
		if count == 1 {
			runtime.Gosched()
		} else {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}
