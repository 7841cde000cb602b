package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/queue"
)

// Key names a pod.
type Key = loop.Key

// Options configure a Crew. Runtime, Images, Wanted and Report are required.
type Options struct {
	Runtime container.Runtime
	Images  container.Images
	// Wanted returns the pod's current definition from the kubelet's sources.
	Wanted func(Key) (*corev1.Pod, bool)
	// Report takes a pod's new status and does not block. When finished is set, no container of the pod runs any more. The
	// context says what has caused the status (see package cause).
	Report func(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus, finished bool)
	// Terminated is told once of each run of a container that has ended. The kind of the container is "container",
	// "init_container" or "ephemeral_container". Nil is not told.
	Terminated func(kind string, end *corev1.ContainerStateTerminated)
	// Addresses returns the addresses of a node.
	Addresses func(node string) []string
	// Admit decides whether the node accepts a pod. Nil accepts all.
	Admit func(context.Context, *corev1.Pod) *Rejection
	// Resize decides whether the node has room for a pod whose resources have changed. If it has not, the reason is
	// Deferred or Infeasible. Nil accepts every resize.
	Resize func(*corev1.Pod) *Rejection
	// Furnish prepares volumes and environments. Nil prepares nothing.
	Furnish Furnisher
	// Health returns the health of the devices that a container has. Nil knows of none.
	Health func(pod *corev1.Pod, c *corev1.Container) []corev1.ResourceStatus
	// Record records events. Nil drops them.
	Record loop.Recorder
	// Workers is how many pods are synced at the same time: 64 by default. Those that wait for an image, a hook or a
	// volume do not count.
	Workers int
	// Logs is the directory of container logs.
	Logs string
	// Backoff delays the restart of crashed containers and the retry of failed pulls. The defaults are 10 s and 5
	// minutes.
	Backoff Backoff
	// Gone is called when nothing of a pod is left on the node.
	Gone    func(Key)
	Clients *loop.Clients
	Logger  *slog.Logger
}

// Rejection says why a node rejects a pod, or ends it.
type Rejection struct {
	Reason, Message string
	// Within shortens the pod's grace period; 0 does not.
	Within time.Duration
}

// Furnisher prepares what pods get from the node and from the API server.
type Furnisher interface {
	// Prepare makes the pod's volumes and devices ready.
	Prepare(ctx context.Context, pod *corev1.Pod) error
	// Sandbox completes the specification of a pod's sandbox.
	Sandbox(ctx context.Context, spec *container.SandboxSpec) error
	// Furnish completes the specification of a container.
	Furnish(ctx context.Context, spec *container.Spec, ips []string) error
	// Credentials returns the credentials for the registry of an image.
	Credentials(ctx context.Context, pod *corev1.Pod, image string) ([]container.Credential, error)
	// Message returns the termination message of a container.
	Message(pod *corev1.Pod, c *corev1.Container, run *container.Container) string
	// Release removes what Prepare has made.
	Release(ctx context.Context, key Key, uid string) error
}

// Checker is a Furnisher that can say what a pod waits for.
type Checker interface {
	// Check returns why Prepare would fail, as far as that is known, and changes nothing.
	Check(ctx context.Context, pod *corev1.Pod) error
}

// Crew runs the pods of one node or of many: it is what Kubernetes calls the pod workers. It is a loop.Runner.
type Crew struct {
	Options
	loop  *loop.Loop
	probe *prober

	mu      sync.Mutex // guards the fields below it, up to the next mutex
	records map[Key]*record
	syncs   map[Key]*detachable // those that are under way
	uids    map[string]Key      // finds the pod of a runtime event

	admission sync.Mutex // held while Admit decides

	background sync.WaitGroup // syncs, probes, and containers that are being stopped
	running    context.Context
}

// New returns a Crew. Run starts it.
func New(o Options) *Crew {
	if o.Workers == 0 {
		o.Workers = 64
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Addresses == nil {
		o.Addresses = func(string) []string { return nil }
	}
	o.Backoff = o.Backoff.withDefaults()
	c := &Crew{Options: o, records: map[Key]*record{}, syncs: map[Key]*detachable{}, uids: map[string]Key{}}
	c.loop = &loop.Loop{
		Name: "pods", Clients: o.Clients, Workers: o.Workers, Sync: c.sync,
		Queue: queue.Options[Key]{BaseDelay: 100 * time.Millisecond, MaxDelay: 10 * time.Second, RetryRate: -1},
	}
	c.probe = newProber(c)
	return c
}

// Changed schedules a sync of a pod. It does not block.
func (c *Crew) Changed(key Key) {
	c.loop.Add(key)
	c.interruptIfEnding(key, c.known(key))
}

// Written schedules a sync of a pod because it was changed in the API. It does not block.
func (c *Crew) Written(by cause.Change) {
	key := Key{Namespace: by.Namespace, Name: by.Name}
	c.loop.AddBecause(key, by)
	c.interruptIfEnding(key, c.known(key))
}

// known returns the record of a pod, or nil.
func (c *Crew) known(key Key) *record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.records[key]
}

// interruptIfEnding cancels the sync that is under way if the pod must end.
func (c *Crew) interruptIfEnding(key Key, r *record) {
	if r != nil && r.interruptible.Load() && c.mustEnd(key, r) {
		r.interrupt()
	}
}

// mustEnd reports whether a running pod must end: it was deleted, replaced or evicted.
func (c *Crew) mustEnd(key Key, r *record) bool {
	pod, ok := c.Wanted(key)
	return !ok || pod.UID != r.uid || pod.DeletionTimestamp != nil || r.eviction.Load() != nil
}

// Evict fails a pod and stops it. The UID keeps a newer pod of the same name safe.
func (c *Crew) Evict(uid types.UID, why *Rejection) {
	c.mu.Lock()
	key, there := c.uids[string(uid)]
	r := c.records[key]
	c.mu.Unlock()
	if there && r != nil && r.eviction.CompareAndSwap(nil, why) {
		r.standing.CompareAndSwap(active, leaving)
		c.loop.AddSaying(key, "it is evicted: "+why.Message)
		c.interruptIfEnding(key, r)
	}
}

// Run syncs pods until ctx ends. Containers keep running after that.
func (c *Crew) Run(ctx context.Context) error {
	defer c.background.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.running = ctx
	return loop.Join(
		loop.Func(func(ctx context.Context) error { return c.Runtime.Events(ctx, c.event) }),
		c.loop,
		c.probe,
	).Run(ctx)
}

// Len returns the number of pods.
func (c *Crew) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.records)
}

func (c *Crew) record(key Key) *record {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.records[key]
	if r == nil {
		r = &record{}
		c.records[key] = r
	}
	return r
}

func (c *Crew) forget(key Key, r *record) {
	c.mu.Lock()
	delete(c.records, key)
	if c.uids[string(r.uid)] == key {
		delete(c.uids, string(r.uid))
	}
	c.mu.Unlock()
	if c.Gone != nil {
		c.Gone(key)
	}
}

// syncPod brings a pod closer to what is wanted.
func (c *Crew) syncPod(ctx context.Context, key Key, d *detachable) (loop.Result, error) {
	r := c.record(key)
	pod, ok := c.Wanted(key)
	if r.uid != "" && (!ok || pod.UID != r.uid) {
		gone, err := c.removePod(ctx, key, r, d)
		if err != nil && ok {
			c.tellWaiting(ctx, key, pod)
		}
		if err != nil || !gone {
			return loop.Result{After: r.wake(c.now())}, err
		}
		c.forget(key, r)
		if ok {
			c.loop.Add(key)
		}
		return loop.Result{}, nil
	}
	if !ok {
		c.forget(key, r)
		return loop.Result{}, nil
	}
	if r.uid == "" {
		c.begin(key, r, pod)
	}
	ctx, done := r.begin(ctx)
	defer done()
	t := &syncTask{known: known{crew: c, key: key, record: r, pod: pod, now: c.now()}, worker: d}
	err := t.run(ctx)
	if ctx.Err() != nil && c.running.Err() == nil { // interrupted because the pod must end
		c.loop.Add(key)
		return loop.Result{}, nil
	}
	return loop.Result{After: t.after}, err
}

// tellWaiting tells a pod why it does not start while an earlier one of its name cannot be removed from the node.
func (c *Crew) tellWaiting(ctx context.Context, key Key, pod *corev1.Pod) {
	if checker, ok := c.Furnish.(Checker); ok {
		if err := checker.Check(ctx, pod); err != nil {
			(&syncTask{known: known{crew: c, key: key, pod: pod}}).tellNotPrepared(err)
		}
	}
}

// begin notes which pod the record belongs to.
func (c *Crew) begin(key Key, r *record, pod *corev1.Pod) {
	r.uid = pod.UID
	c.mu.Lock()
	c.uids[string(pod.UID)] = key
	c.mu.Unlock()
}

func (c *Crew) now() time.Time { return time.Now() }
