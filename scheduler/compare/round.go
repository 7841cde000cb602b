package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
)

// result is what one scheduler did with one set of pods.
type result struct {
	pods   int
	took   time.Duration // from the first binding to the last
	cpu    time.Duration // of the whole process, its start included
	peak   float64       // MiB
	byNode []int         // pods
	byZone []int
}

// String is a part of a line of the table.
func (r result) String() string {
	return fmt.Sprintf("%.0f\t%.0f\t%.0f\t%s\t%s", float64(r.pods-1)/r.took.Seconds(), float64(r.cpu.Microseconds())/float64(r.pods), r.peak,
		span(r.byNode), span(r.byZone))
}

func span(counts []int) string {
	return fmt.Sprintf("%d to %d", slices.Min(counts), slices.Max(counts))
}

// atMost is how long a scheduler may take.
const atMost = 5 * time.Minute

// round lets one scheduler place pods that were there before it began.
func (w *world) round(ctx context.Context, s contender, kind string, pods int) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	if err := w.empty(ctx); err != nil {
		return result{}, err
	}
	if err := w.fill(ctx, kind, pods); err != nil {
		return result{}, err
	}
	watching, stop := context.WithCancel(ctx)
	seen := newSightings(w.nodes, pods)
	observed := w.observe(watching, seen)
	defer func() {
		stop()
		<-observed
	}()
	select {
	case <-seen.begun:
	case <-ctx.Done():
		return result{}, context.Cause(ctx)
	}
	said := &bytes.Buffer{}
	process := exec.CommandContext(ctx, s.args[0], s.args[1:]...)
	process.Stdout, process.Stderr = said, said
	err := process.Start()
	if err != nil {
		return result{}, err
	}
	select {
	case <-seen.all:
	case <-ctx.Done():
		err = fmt.Errorf("not all pods got nodes: %w", context.Cause(ctx))
	}
	most := peak(process.Process.Pid)
	_ = process.Process.Kill()
	_ = process.Wait() // it was killed
	if err != nil {
		text := said.String()
		return result{}, fmt.Errorf("%w; what it said last:\n%s", err, text[max(0, len(text)-2000):])
	}
	r := seen.result
	r.peak, r.cpu = most, process.ProcessState.UserTime()+process.ProcessState.SystemTime()
	return r, nil
}

// sightings are what is seen of the pods.
type sightings struct {
	result     result
	placed     map[string]bool
	first      time.Time
	begun, all chan struct{} // closed when the pods are known, and when all have nodes
}

func newSightings(nodes, pods int) *sightings {
	return &sightings{
		result: result{pods: pods, byNode: make([]int, nodes), byZone: make([]int, zones)},
		placed: map[string]bool{}, begun: make(chan struct{}), all: make(chan struct{}),
	}
}

// observe watches the pods until ctx ends. Afterwards the channel is closed.
func (w *world) observe(ctx context.Context, seen *sightings) <-chan struct{} {
	pods := informer.New(informer.For(w.kube.CoreV1().Pods(w.namespace)), informer.Options[*corev1.Pod]{})
	pods.Handle(informer.Handler[*corev1.Pod]{Name: "compare", Set: seen.pod})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = pods.Run(ctx)
	}()
	go func() {
		if pods.Synced(ctx) == nil {
			close(seen.begun)
		}
	}()
	return ended
}

// pod notes where a pod is.
func (s *sightings) pod(p *corev1.Pod) {
	i, err := strconv.Atoi(strings.TrimPrefix(p.Spec.NodeName, "compare-"))
	if err != nil || i >= len(s.result.byNode) || s.placed[p.Name] {
		return
	}
	if len(s.placed) == 0 {
		s.first = time.Now()
	}
	s.placed[p.Name] = true
	s.result.byNode[i]++
	s.result.byZone[i%zones]++
	if len(s.placed) == s.result.pods {
		s.result.took = time.Since(s.first)
		close(s.all)
	}
}

// peak is the most memory that a process has had, in MiB, where Linux tells.
func peak(pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	n, _ := strconv.ParseFloat(strings.TrimSpace(strings.SplitN(after, "kB", 2)[0]), 64)
	return n / 1024
}
