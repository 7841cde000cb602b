package podautoscaler

import (
	"cmp"
	"context"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/meter"
	"github.com/millrace/millrace/loop"
)

const name = "horizontal-pod-autoscaler-controller"

// Options are kube-controller-manager's flags --horizontal-pod-autoscaler-*. Zero values mean its defaults.
type Options struct {
	// SyncPeriod is the time between two evaluations of an autoscaler: 15 s.
	SyncPeriod time.Duration
	// Tolerance is how much the ratio of usage to target may differ from 1 without scaling: 0.1.
	Tolerance float64
	// DownscaleStabilization is the window in which the highest recommendation counts: 5 minutes.
	DownscaleStabilization time.Duration
	// CPUInitialization is how long after its start a pod's CPU usage counts only while the pod is ready: 5 minutes.
	CPUInitialization time.Duration
	// InitialReadiness is how long after its start a pod that is not ready counts as never having been ready: 30 s.
	InitialReadiness time.Duration
	// Metrics counts evaluations.
	Metrics *Metrics
}

func (o *Options) setDefaults() {
	o.SyncPeriod = cmp.Or(o.SyncPeriod, 15*time.Second)
	o.Tolerance = cmp.Or(o.Tolerance, 0.1)
	o.DownscaleStabilization = cmp.Or(o.DownscaleStabilization, 5*time.Minute)
	o.CPUInitialization = cmp.Or(o.CPUInitialization, 5*time.Minute)
	o.InitialReadiness = cmp.Or(o.InitialReadiness, 30*time.Second)
	if o.Metrics == nil {
		o.Metrics = NewMetrics(meter.New(nil))
	}
}

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	return loop.Entry{
		Name: name, Aliases: []string{"horizontalpodautoscaling"}, Source: "horizontal-pod-autoscaler",
		New: func(c *loop.Clients) (loop.Runner, error) { return New(c, o) },
	}
}

type controller struct {
	Options
	clients     *loop.Clients
	recorder    loop.Recorder
	autoscalers *informer.Shared[*autoscalingv2.HorizontalPodAutoscaler]
	writer      *loop.Writer[*autoscalingv2.HorizontalPodAutoscaler]

	mu      sync.Mutex                                       // guards the maps, not the memories
	memory  map[loop.Key]*memory                             // a memory is used only by the worker that syncs its key
	targets map[schema.GroupKind]schema.GroupVersionResource // cached discovery
	selects map[string]map[string]labels.Selector            // by namespace and autoscaler
}

// memory is the state of an autoscaler between two evaluations.
type memory struct {
	next            time.Time // when it is evaluated next
	recommendations []sample
	ups, downs      []sample // changes of the size, for the policies
}

// sample is a number of replicas at a time.
type sample struct {
	replicas int32
	at       time.Time
}

// New returns the loop. Its keys are autoscalers.
func New(c *loop.Clients, o Options) (loop.Runner, error) {
	o.setDefaults()
	r := &controller{
		Options: o, clients: c, recorder: c.Recorder,
		autoscalers: loop.Informer(c, informer.For(c.Kube.AutoscalingV2().HorizontalPodAutoscalers(""))),
		memory:      map[loop.Key]*memory{}, targets: map[schema.GroupKind]schema.GroupVersionResource{}, selects: map[string]map[string]labels.Selector{},
	}
	r.writer = loop.NewWriter(informer.ResourceOf[*autoscalingv2.HorizontalPodAutoscaler](c.Kube.AutoscalingV2().RESTClient(), "horizontalpodautoscalers"), r.autoscalers, "")
	o.Metrics.Count(r.wantedReplicas)
	return &loop.Loop{Name: name, Clients: c, Workers: 5, Sync: r.sync, Watches: []loop.Watch{loop.Self(r.autoscalers)}}, nil
}

// sync evaluates an autoscaler when it is due.
func (r *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	hpa, ok := r.autoscalers.Lookup(key)
	if !ok {
		r.forget(key)
		return loop.Result{}, nil
	}
	m, now := r.remember(key), r.clients.Now()
	if wait := m.next.Sub(now); wait > 0 {
		return loop.Result{After: wait}, nil
	}
	m.next = now.Add(r.SyncPeriod)
	e := &evaluation{controller: r, memory: m, key: key, now: now, hpa: hpa.DeepCopy(), before: &hpa.Status, did: NoAction}
	began := time.Now()
	err := e.do(ctx)
	r.Metrics.Reconciled(e.did, failureOf(e.failed), time.Since(began))
	if err != nil && ctx.Err() == nil {
		// Errors are reported by events and conditions, and the next evaluation comes in time.
		r.clients.Log.Debug("autoscaler cannot be followed", "key", key, "err", err)
	}
	return loop.Result{After: r.SyncPeriod}, ctx.Err()
}

func (r *controller) remember(key loop.Key) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.memory[key]
	if m == nil {
		m = &memory{}
		r.memory[key] = m
	}
	return m
}

func (r *controller) forget(key loop.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.memory, key)
	delete(r.selects[key.Namespace], key.Name)
	if len(r.selects[key.Namespace]) == 0 {
		delete(r.selects, key.Namespace)
	}
}
