package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/kubelet/container"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/queue"
)

// Key names a pod.
type Key = loop.Key

// Options say what a Crew works with. Runtime, Images, Wanted and Report are needed.
type Options struct {
	Runtime container.Runtime
	Images  container.Images
	// Wanted is the pod as it is wanted now.
	Wanted func(Key) (*corev1.Pod, bool)
	// Report takes a pod's new status. It does not wait. When finished is set nothing of the pod runs any more.
	Report func(pod *corev1.Pod, status *corev1.PodStatus, finished bool)
	// Addresses are those of a node, by its name.
	Addresses func(node string) []string
	// Admit decides whether the node takes a pod. Nil takes all.
	Admit func(*corev1.Pod) *Rejection
	// Resize decides whether the node has room for a pod whose resources have changed: the reason is Deferred or
	// Infeasible if it has not. Nil has room for all.
	Resize func(*corev1.Pod) *Rejection
	// Furnish gives pods their volumes and containers their environment. Nil gives nothing.
	Furnish Furnisher
	// Record takes events. Nil drops them.
	Record loop.Recorder
	// Workers is how many pods are worked on at a time: 64 by default.
	Workers int
	// Static reports whether a pod does not come from the API server, so that nobody but its source can delete it.
	Static func(*corev1.Pod) bool
	// Logs is the folder of the containers' logs.
	Logs string
	// Backoff is how long containers that crash and images that fail wait. Zeros are 10 s and 5 minutes.
	Backoff Backoff
	// Gone is told when nothing is left of a pod.
	Gone    func(Key)
	Clients *loop.Clients
	Logger  *slog.Logger
}

// Rejection says why a node does not take a pod, or ends it.
type Rejection struct {
	Reason, Message string
	// AtOnce ends it without its grace.
	AtOnce bool
}

// Furnisher gives pods what comes from the node and the API server.
type Furnisher interface {
	// Prepare makes the pod's volumes ready.
	Prepare(ctx context.Context, pod *corev1.Pod) error
	// Sandbox fills in what a pod's sandbox needs.
	Sandbox(ctx context.Context, spec *container.SandboxSpec) error
	// Furnish fills in what a container needs.
	Furnish(ctx context.Context, spec *container.Spec, ips []string) error
	// Credentials are what opens the registry of the pod's images.
	Credentials(ctx context.Context, pod *corev1.Pod, image string) ([]container.Credential, error)
	// Message reads what a container that ended left as its message.
	Message(pod *corev1.Pod, c *corev1.Container, run *container.Container) string
	// Release takes away what Prepare made.
	Release(ctx context.Context, key Key, uid string) error
}

// Crew works on the pods of one or many nodes. It is a loop.Runner.
type Crew struct {
	Options
	loop  *loop.Loop
	probe *prober

	mu    sync.Mutex // guards lives and uids
	lives map[Key]*life
	uids  map[string]Key // where a runtime's event belongs

	admission sync.Mutex // held while the node is asked

	background sync.WaitGroup // stops that are under way
	running    context.Context
}

// New makes a Crew.
func New(o Options) *Crew {
	if o.Workers == 0 {
		o.Workers = 64
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Static == nil {
		o.Static = func(*corev1.Pod) bool { return false }
	}
	if o.Addresses == nil {
		o.Addresses = func(string) []string { return nil }
	}
	o.Backoff = o.Backoff.withDefaults()
	c := &Crew{Options: o, lives: map[Key]*life{}, uids: map[string]Key{}}
	c.loop = &loop.Loop{
		Name: "pods", Clients: o.Clients, Workers: o.Workers, Sync: c.sync,
		Queue: queue.Options[Key]{BaseDelay: 100 * time.Millisecond, MaxDelay: 10 * time.Second, RetryRate: -1},
	}
	c.probe = newProber(c)
	return c
}

// Changed asks for a look at a pod. It never waits.
func (c *Crew) Changed(key Key) {
	c.loop.Add(key)
	c.mu.Lock()
	l := c.lives[key]
	c.mu.Unlock()
	c.hurry(key, l)
}

// hurry interrupts what is done for a pod that is to end.
func (c *Crew) hurry(key Key, l *life) {
	if l != nil && l.patient.Load() && c.over(key, l) {
		l.interrupt()
	}
}

// over reports whether a pod that lives is to live no more.
func (c *Crew) over(key Key, l *life) bool {
	pod, ok := c.Wanted(key)
	return !ok || pod.UID != l.uid || pod.DeletionTimestamp != nil || l.sentence.Load() != nil
}

// Evict fails a pod that is there, and ends it. Another pod that has come under the same name since is left alone.
func (c *Crew) Evict(uid types.UID, why *Rejection) {
	c.mu.Lock()
	key, there := c.uids[string(uid)]
	l := c.lives[key]
	c.mu.Unlock()
	if there && l != nil && l.sentence.CompareAndSwap(nil, why) {
		l.inside.Store(false)
		c.loop.Add(key)
		c.hurry(key, l)
	}
}

// Run works until ctx ends. Containers go on running.
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

// Len is how many pods there are.
func (c *Crew) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lives)
}

func (c *Crew) life(key Key) *life {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lives[key]
	if l == nil {
		l = &life{}
		c.lives[key] = l
	}
	return l
}

func (c *Crew) forget(key Key, l *life) {
	c.mu.Lock()
	delete(c.lives, key)
	if c.uids[string(l.uid)] == key {
		delete(c.uids, string(l.uid))
	}
	c.mu.Unlock()
	if c.Gone != nil {
		c.Gone(key)
	}
}

func (c *Crew) sync(ctx context.Context, key Key) (loop.Result, error) {
	l := c.life(key)
	pod, ok := c.Wanted(key)
	if l.uid != "" && (!ok || pod.UID != l.uid) {
		gone, err := c.removePod(ctx, key, l)
		if err != nil || !gone {
			return loop.Result{After: l.wake(c.now())}, err
		}
		c.forget(key, l)
		if ok {
			c.loop.Add(key)
		}
		return loop.Result{}, nil
	}
	if !ok {
		c.forget(key, l)
		return loop.Result{}, nil
	}
	if l.uid == "" {
		c.begin(key, l, pod)
	}
	ctx, done := l.begin(ctx)
	defer done()
	t := &turn{crew: c, key: key, life: l, pod: pod, now: c.now()}
	err := t.run(ctx)
	if ctx.Err() != nil && c.running.Err() == nil { // interrupted, since the pod shall end
		c.loop.Add(key)
		return loop.Result{}, nil
	}
	return loop.Result{After: t.after}, err
}

// begin notes whose life it is.
func (c *Crew) begin(key Key, l *life, pod *corev1.Pod) {
	l.uid = pod.UID
	c.mu.Lock()
	c.uids[string(pod.UID)] = key
	c.mu.Unlock()
}

func (c *Crew) now() time.Time { return time.Now() }
