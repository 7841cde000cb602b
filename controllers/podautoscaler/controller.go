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
	"github.com/millrace/millrace/loop"
)

const name = "horizontal-pod-autoscaler-controller"

// Options are kube-controller-manager's flags that begin with --horizontal-pod-autoscaler. Zero values are its defaults.
type Options struct {
	// SyncPeriod is how often an autoscaler is looked at: 15 s.
	SyncPeriod time.Duration
	// Tolerance is how far from 1 the ratio of use to target may be before something is changed: 0.1.
	Tolerance float64
	// DownscaleStabilization is for how long the highest recommendation counts: 5 minutes.
	DownscaleStabilization time.Duration
	// CPUInitialization is how long after its start a pod's use of CPU counts only if it is ready: 5 minutes.
	CPUInitialization time.Duration
	// InitialReadiness is how long after its start a pod that is not ready is believed not to have been ready yet: 30 s.
	InitialReadiness time.Duration
}

func (o *Options) setDefaults() {
	o.SyncPeriod = cmp.Or(o.SyncPeriod, 15*time.Second)
	o.Tolerance = cmp.Or(o.Tolerance, 0.1)
	o.DownscaleStabilization = cmp.Or(o.DownscaleStabilization, 5*time.Minute)
	o.CPUInitialization = cmp.Or(o.CPUInitialization, 5*time.Minute)
	o.InitialReadiness = cmp.Or(o.InitialReadiness, 30*time.Second)
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

	mu      sync.Mutex                                       // guards the maps, not what the memories hold
	memory  map[loop.Key]*memory                             // a memory is used by the one worker that syncs its key
	targets map[schema.GroupKind]schema.GroupVersionResource // as discovery told
	selects map[string]map[string]labels.Selector            // by namespace and autoscaler
}

// memory is what is remembered of an autoscaler between two looks.
type memory struct {
	next            time.Time // when it is looked at again
	recommendations []sample
	ups, downs      []sample // what was changed, by how much
}

// sample is a number of replicas at a moment.
type sample struct {
	replicas int32
	at       time.Time
}

// New makes the loop. Its keys are autoscalers.
func New(c *loop.Clients, o Options) (loop.Runner, error) {
	o.setDefaults()
	r := &controller{
		Options: o, clients: c, recorder: c.Recorder,
		autoscalers: loop.Informer(c, informer.For(c.Kube.AutoscalingV2().HorizontalPodAutoscalers(""))),
		memory:      map[loop.Key]*memory{}, targets: map[schema.GroupKind]schema.GroupVersionResource{}, selects: map[string]map[string]labels.Selector{},
	}
	r.writer = loop.NewWriter(informer.ResourceOf[*autoscalingv2.HorizontalPodAutoscaler](c.Kube.AutoscalingV2().RESTClient(), "horizontalpodautoscalers"), r.autoscalers, "")
	return &loop.Loop{Name: name, Clients: c, Workers: 5, Sync: r.sync, Watches: []loop.Watch{loop.Self(r.autoscalers)}}, nil
}

// sync looks at an autoscaler when its time has come.
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
	l := &look{controller: r, memory: m, key: key, now: now, hpa: hpa.DeepCopy(), before: &hpa.Status}
	if err := l.do(ctx); err != nil && ctx.Err() == nil {
		// Whatever is wrong, it is looked at again in time: the events and conditions tell about it.
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
