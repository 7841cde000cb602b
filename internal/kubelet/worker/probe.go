package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/queue"
)

const (
	startupWord    = "startup"
	livenessWord   = "liveness"
	probers        = 16
	minDelay       = 10 * time.Millisecond
	defaultPeriod  = 10 * time.Second
	defaultTimeout = time.Second
)

// probing is one probe of one run of a container. It is the key of the prober's queue.
type probing struct {
	key  Key
	name string
	id   string
	kind container.ProbeKind
}

// tally counts equal results in a row.
type tally struct {
	uid   types.UID
	ok    bool
	count int32
}

// prober runs the probes of all containers. They share one queue with one timer, and each has a goroutine while it
// runs.
type prober struct {
	crew  *Crew
	queue *queue.Queue[probing]

	mu    sync.Mutex // guards tally
	tally map[probing]*tally
}

func newProber(c *Crew) *prober {
	return &prober{
		crew:  c,
		queue: queue.New(queue.Options[probing]{Name: "probes", Metrics: metricsOf(c), RetryRate: -1}),
		tally: map[probing]*tally{},
	}
}

func metricsOf(c *Crew) queue.Metrics {
	if c.Clients == nil {
		return nil
	}
	return c.Clients.Metrics
}

// Run runs probes until ctx ends.
func (p *prober) Run(ctx context.Context) error {
	_ = p.queue.Run(ctx, min(probers, p.crew.Workers), p.probe)
	return nil
}

// startProbes schedules the probes of containers that run and have none yet.
func (t *syncTask) startProbes() {
	for i := range t.pod.Spec.InitContainers {
		if c := &t.pod.Spec.InitContainers[i]; demand.Sidecar(c) {
			t.startProbe(c)
		}
	}
	for i := range t.pod.Spec.Containers {
		t.startProbe(&t.pod.Spec.Containers[i])
	}
}

func (t *syncTask) startProbe(c *corev1.Container) {
	if c.StartupProbe == nil && c.LivenessProbe == nil && c.ReadinessProbe == nil {
		return
	}
	run := t.state.Container(c.Name)
	if run == nil || run.State != container.Running || t.record.ended {
		return
	}
	for _, kind := range []container.ProbeKind{container.Startup, container.Liveness, container.Readiness} {
		if probe := probeOf(c, kind); probe != nil {
			t.crew.probe.begin(probing{t.key, c.Name, run.ID, kind}, t.record.uid, probe, run.StartedAt)
		}
	}
}

func probeOf(c *corev1.Container, kind container.ProbeKind) *corev1.Probe {
	switch kind {
	case container.Startup:
		return c.StartupProbe
	case container.Liveness:
		return c.LivenessProbe
	}
	return c.ReadinessProbe
}

func (p *prober) begin(key probing, uid types.UID, probe *corev1.Probe, started time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tally[key] != nil {
		return
	}
	p.tally[key] = &tally{uid: uid}
	delay := demand.Seconds(probe.InitialDelaySeconds)
	p.queue.AddAfter(key, max(min(time.Until(started.Add(delay)), delay), minDelay)) // even if the wall clock was changed since
}

func (p *prober) end(key probing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.tally, key)
}

// forgetRun drops the results of a run that another run has replaced.
func (p *prober) forgetRun(key Key, name, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, kind := range []container.ProbeKind{container.Startup, container.Liveness, container.Readiness} {
		delete(p.tally, probing{key, name, id, kind})
	}
}

// forget drops the results of a pod.
func (p *prober) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, t := range p.tally {
		if t.uid == uid {
			delete(p.tally, key)
		}
	}
}

// probe runs a probe once and schedules the next run.
func (p *prober) probe(ctx context.Context, key probing) error {
	pod, run, r, err := p.subject(ctx, key)
	if err != nil {
		p.queue.AddAfter(key, defaultPeriod)
		return nil
	}
	if run == nil {
		p.end(key)
		return nil
	}
	c := find(pod, key.name)
	probe := probeOf(c, key.kind)
	if probe == nil {
		p.end(key)
		return nil
	}
	period := demand.Seconds(probe.PeriodSeconds)
	if period <= 0 {
		period = defaultPeriod
	}
	switch v := r.verdictOf(key.id); {
	case key.kind == container.Startup && v.started:
		return nil // a startup probe that has passed is not repeated
	case key.kind != container.Startup && c.StartupProbe != nil && !v.started:
		p.queue.AddAfter(key, min(period, time.Second))
		return nil
	case r.isStopping(key.id) && key.kind != container.Readiness:
		return nil
	}
	p.crew.background.Go(func() { // the pod's creator chooses how long it may take, and other probes do not wait for it
		defer p.queue.AddAfter(key, period)
		var ok bool
		var message string
		err := queue.Contain(func() (err error) {
			ok, message, err = p.ask(ctx, pod, c, run, key.kind, probe)
			return err
		})
		switch {
		case ctx.Err() != nil:
		case err == nil:
			p.count(pod, c, key, probe, r, ok, message)
		default:
			p.crew.Logger.Debug("probe could not be run", "pod", key.key, "container", key.name, "kind", key.kind, "err", err)
		}
	})
	return nil
}

// subject returns the pod, the run and the record of a probe. The run is nil if it has ended. For network probes the
// run is taken from memory, so a runtime that hangs does not stop them.
func (p *prober) subject(ctx context.Context, key probing) (*corev1.Pod, *container.Container, *record, error) {
	pod, ok := p.crew.Wanted(key.key)
	if !ok || find(pod, key.name) == nil {
		return nil, nil, nil, nil
	}
	r := p.crew.record(key.key)
	if reported := r.last.Load(); reported != nil && toldToRun(reported, key) {
		return pod, &container.Container{ID: key.id, Name: key.name, State: container.Running}, r, nil
	}
	state, err := p.crew.Runtime.Pod(ctx, pod.UID)
	if err != nil {
		return nil, nil, nil, err
	}
	run := state.Container(key.name)
	if run == nil || run.ID != key.id || run.State != container.Running {
		return nil, nil, nil, nil
	}
	return pod, run, r, nil
}

func toldToRun(reported *corev1.PodStatus, key probing) bool {
	for _, list := range [][]corev1.ContainerStatus{reported.ContainerStatuses, reported.InitContainerStatuses} {
		for i := range list {
			if s := &list[i]; s.Name == key.name {
				return s.ContainerID == key.id && s.State.Running != nil
			}
		}
	}
	return false
}

// count adds a result. When a threshold is reached, the verdict changes.
func (p *prober) count(pod *corev1.Pod, c *corev1.Container, key probing, probe *corev1.Probe, r *record, ok bool, message string) {
	p.mu.Lock()
	t := p.tally[key]
	if t == nil {
		p.mu.Unlock()
		return
	}
	if t.ok != ok {
		t.count = 0
	}
	t.ok = ok
	t.count++
	count := t.count
	p.mu.Unlock()

	enough := max(probe.SuccessThreshold, 1)
	if !ok {
		if enough = probe.FailureThreshold; enough <= 0 {
			enough = 3
		}
		p.crew.eventOf(pod, c, corev1.EventTypeWarning, "Unhealthy", "%s probe failed: %s", key.kind, message)
	}
	if ok && message != "" {
		p.crew.eventOf(pod, c, corev1.EventTypeWarning, "ProbeWarning", "%s probe warning: %s", key.kind, message)
	}
	if count < enough {
		return
	}
	if r.updateVerdict(key.id, func(v *verdict) { v.take(key.kind, ok) }) {
		word := "fails"
		if ok {
			word = "succeeds"
		}
		p.crew.loop.AddSaying(key.key, fmt.Sprintf("the %s probe of container %s %s", key.kind, c.Name, word))
	}
}

func (v *verdict) take(kind container.ProbeKind, ok bool) {
	switch {
	case kind == container.Readiness:
		v.ready = ok
	case kind == container.Startup && ok:
		v.started = true
	case kind == container.Startup:
		v.restartReason = startupWord
	case !ok:
		v.restartReason = livenessWord
	}
}

func (p *prober) ask(ctx context.Context, pod *corev1.Pod, c *corev1.Container, run *container.Container, kind container.ProbeKind, probe *corev1.Probe) (bool, string, error) {
	timeout := demand.Seconds(probe.TimeoutSeconds)
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if own, ok := p.crew.Runtime.(container.Prober); ok {
		return own.Probe(ctx, run.ID, kind, probe)
	}
	return p.crew.handle(ctx, pod, c, run.ID, &probe.ProbeHandler)
}
