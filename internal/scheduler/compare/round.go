package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
)

// round lets one contender place pods that exist before it is started.
func (w *world) round(ctx context.Context, o options, c contender, kind string) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	pods := o.pods
	if most := kindsOfPods[kind].most; most != nil {
		pods = min(pods, most(w.nodes))
	}
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
	process := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	process.Stdout, process.Stderr = said, said
	if err := process.Start(); err != nil {
		return result{}, err
	}
	r, err := w.follow(ctx, process.Process.Pid, seen)
	_ = process.Process.Kill()
	_ = process.Wait() // the error is that it was killed
	if err != nil {
		text := said.String()
		return result{}, fmt.Errorf("%w; what it said last:\n%s", err, text[max(0, len(text)-2000):])
	}
	return r, nil
}

// follow measures a process from its first binding, or the first pod that it deletes, to its last event.
func (w *world) follow(ctx context.Context, pid int, seen *sightings) (result, error) {
	var start time.Duration
	for _, until := range []<-chan struct{}{seen.first, seen.all} {
		select {
		case <-until:
		case <-ctx.Done():
			return result{}, fmt.Errorf("%d of %d pods got nodes: %w", seen.count.Load(), seen.result.pods, context.Cause(ctx))
		}
		if start == 0 {
			start = cpu(pid)
		}
	}
	r := seen.result
	r.binding = cpu(pid) - start
	var err error
	r.events, err = w.events(ctx, r.pods)
	r.all, r.peak = cpu(pid)-start, peak(pid)
	return r, err
}

// quiet is how long no event must arrive until all events count as written.
const quiet = 2 * time.Second

// events waits until a contender has written an event for each pod, or writes no more, and returns the number of
// events.
func (w *world) events(ctx context.Context, pods int) (int, error) {
	count, last := 0, time.Now()
	every := time.NewTicker(quiet / 10)
	defer every.Stop()
	for count < pods && time.Since(last) < quiet {
		select {
		case <-every.C:
		case <-ctx.Done():
			return count, context.Cause(ctx)
		}
		list, err := w.kube.CoreV1().Events(w.namespace).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return count, err
		}
		now := len(list.Items)
		if list.RemainingItemCount != nil {
			now += int(*list.RemainingItemCount)
		}
		if now > count {
			count, last = now, time.Now()
		}
	}
	return count, nil
}

// sightings records when the watch shows pods and their nodes.
type sightings struct {
	result            result
	placed            map[string]bool
	count             atomic.Int64 // of placed
	at                time.Time
	begun, first, all chan struct{} // closed when all pods exist, when the first has its node or had to go, and when all have nodes
}

func newSightings(nodes, pods int) *sightings {
	return &sightings{
		result: result{pods: pods, byNode: make([]int, nodes), byZone: make([]int, zones)},
		placed: map[string]bool{}, begun: make(chan struct{}), first: make(chan struct{}), all: make(chan struct{}),
	}
}

// observe watches the pods until ctx ends. Afterwards it closes the channel.
func (w *world) observe(ctx context.Context, seen *sightings) <-chan struct{} {
	pods := informer.New(informer.For(w.kube.CoreV1().Pods(w.namespace)), informer.Options[*corev1.Pod]{})
	pods.Handle(informer.Handler[*corev1.Pod]{Name: "compare", Set: seen.pod, Deleted: seen.gone})
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

// pod records a pod and its node.
func (s *sightings) pod(p *corev1.Pod) {
	i, err := strconv.Atoi(strings.TrimPrefix(p.Spec.NodeName, "compare-"))
	if err != nil || i >= len(s.result.byNode) || s.placed[p.Name] || p.Labels["kind"] == "" {
		return
	}
	s.begin()
	s.placed[p.Name] = true
	s.count.Add(1)
	s.result.byNode[i]++
	s.result.byZone[i%zones]++
	if len(s.placed) == s.result.pods {
		s.result.took = time.Since(s.at)
		close(s.all)
	}
}

// gone records that a pod was deleted: only those that others need the place of are.
func (s *sightings) gone(*corev1.Pod, bool) { s.begin() }

func (s *sightings) begin() {
	if s.at.IsZero() {
		s.at = time.Now()
		close(s.first)
	}
}
