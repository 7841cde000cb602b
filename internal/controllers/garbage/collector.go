package garbage

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/kinds"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/queue"
)

const name = "garbage-collector-controller"

// Entry is this loop among the others, without metrics.
var Entry = Options{}.Entry()

// Options configure the loop.
type Options struct {
	// NotDiscovered, if set, is called when the kinds could not be discovered.
	NotDiscovered func()
}

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	if o.NotDiscovered == nil {
		o.NotDiscovered = func() {}
	}
	return loop.Entry{Name: name, Aliases: []string{"garbagecollector"}, New: o.new}
}

type collector struct {
	Options
	metadata  metadata.Interface
	discovery discovery.DiscoveryInterface
	recorder  loop.Recorder
	log       *slog.Logger
	pods      *informer.Shared[*podview.Pod]
	graph     *graph
	queue     *queue.Queue[types.UID]
	absent    absences
	kick      chan struct{} // has a buffer of one

	discoveryPeriod time.Duration
	watchFor        time.Duration // of the informers
	workers         int

	mu         sync.Mutex // guards what follows
	catalogue  *kinds.Catalogue
	monitors   map[schema.GroupVersionResource]*monitor
	unresolved map[types.UID]struct{} // wait for a kind that discovery does not show
}

// new returns the loop. It needs the metadata client.
func (o Options) new(c *loop.Clients) (loop.Runner, error) {
	if c.Metadata == nil {
		return nil, errors.New("the garbage collector needs a metadata client")
	}
	period := 30 * time.Second
	if c.Alone() { // definitions of kinds are watched
		period = time.Hour
	}
	return &collector{
		Options:         o,
		discoveryPeriod: period, watchFor: c.WatchFor(), workers: c.WorkersOf(name, workers),

		metadata: c.Metadata, discovery: c.Discovery, recorder: c.Recorder, log: c.Log,
		pods:  podview.Informer(c),
		graph: newGraph(),
		// No overall rate limit: conflicts on each of 5,000 pods are normal.
		queue: queue.New(queue.Options[types.UID]{
			Name: name, Metrics: c.Metrics, RetryRate: -1, MaxDelay: time.Minute,
			OnError: func(ctx context.Context, uid types.UID, err error) { report(ctx, c.Log, uid, err) },
		}),
		kick:       make(chan struct{}, 1),
		catalogue:  &kinds.Catalogue{},
		monitors:   map[schema.GroupVersionResource]*monitor{},
		unresolved: map[types.UID]struct{}{},
	}, nil
}

func report(ctx context.Context, log *slog.Logger, uid types.UID, err error) {
	level := slog.LevelWarn
	if apierrors.IsConflict(err) {
		level = slog.LevelDebug
	}
	log.Log(ctx, level, "garbage not collected yet", "uid", string(uid), "err", err)
}

const (
	syncTimeout = 30 * time.Second
	workers     = 20 // unless Clients.Workers says another number
)

// Run watches all kinds and collects garbage until ctx ends.
func (c *collector) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var monitors sync.WaitGroup
	defer monitors.Wait()
	defer cancel()
	c.refresh(ctx, &monitors)
	return loop.Join(
		loop.Func(func(ctx context.Context) error { return c.keepFresh(ctx, &monitors) }),
		loop.Func(func(ctx context.Context) error {
			c.awaitCaches(ctx)
			_ = c.queue.Run(ctx, c.workers, c.attempt) // the error is the cause of ctx, which is no failure
			return nil
		}),
	).Run(ctx)
}

// suspect has objects looked at because of a change.
func (c *collector) suspect(suspects []types.UID, by cause.Change) {
	for _, uid := range suspects {
		c.queue.AddBecause(uid, by)
	}
}

// rediscover requests a new discovery soon.
func (c *collector) rediscover() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

func (c *collector) keepFresh(ctx context.Context, monitors *sync.WaitGroup) error {
	period := time.NewTicker(c.discoveryPeriod)
	defer period.Stop()
	for {
		select {
		case <-period.C:
		case <-c.kick:
		case <-ctx.Done():
			return nil
		}
		c.refresh(ctx, monitors)
	}
}

// refresh starts monitors of new kinds, and stops those of deleted kinds. A group whose discovery fails keeps its
// monitors.
func (c *collector) refresh(ctx context.Context, monitors *sync.WaitGroup) {
	found, err := kinds.Discover(c.discovery)
	if err != nil {
		c.NotDiscovered()
		c.log.WarnContext(ctx, "kinds not discovered; garbage of new kinds waits", "err", err)
		c.rediscoverLater(ctx, monitors)
		return
	}
	c.mu.Lock()
	c.catalogue = found
	wanted := map[schema.GroupVersionResource]bool{}
	for _, kind := range found.Kinds {
		if !followable(kind) {
			continue
		}
		wanted[kind.Resource] = true
		if c.monitors[kind.Resource] == nil {
			c.startLocked(ctx, kind, monitors)
		}
	}
	var gone []schema.GroupVersionResource
	for resource, m := range c.monitors {
		if !wanted[resource] && !found.FailedGroup(resource.Group) {
			m.stop()
			delete(c.monitors, resource)
			gone = append(gone, resource)
		}
	}
	waiting := c.unresolved
	c.unresolved = map[types.UID]struct{}{}
	c.mu.Unlock()
	for _, resource := range gone {
		if !c.follows(resource.GroupResource()) { // otherwise only the version has changed
			c.suspect(c.graph.forget(resource.GroupResource()), cause.Change{})
		}
	}
	for uid := range waiting {
		c.queue.Add(uid)
	}
}

// followable reports whether objects of a kind can be garbage.
func followable(kind *kinds.Kind) bool {
	return kind.Can("list", "watch", "delete") && kind.Resource.Resource != "events"
}

// followed returns the kinds whose objects can be garbage.
func (c *collector) followed() []*kinds.Kind {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.catalogue.Kinds), func(kind *kinds.Kind) bool { return !followable(kind) })
}

// rediscoverLater retries before the period is over.
func (c *collector) rediscoverLater(ctx context.Context, monitors *sync.WaitGroup) {
	monitors.Go(func() {
		timer := time.NewTimer(time.Second)
		defer timer.Stop()
		select {
		case <-timer.C:
			c.rediscover()
		case <-ctx.Done():
		}
	})
}

func (c *collector) startLocked(ctx context.Context, kind *kinds.Kind, monitors *sync.WaitGroup) {
	m := c.monitor(kind)
	ctx, m.stop = context.WithCancel(ctx)
	c.monitors[kind.Resource] = m
	monitors.Go(func() {
		if err := m.run(ctx); err != nil && ctx.Err() == nil {
			c.log.ErrorContext(ctx, "monitor ended", "resource", kind.Resource.String(), "err", err)
		}
	})
}

func (c *collector) follows(resource schema.GroupResource) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for followed := range c.monitors {
		if followed.GroupResource() == resource {
			return true
		}
	}
	return false
}

// awaitCaches waits until the graph is as complete as possible. A kind that cannot be listed must not block the others
// for ever.
func (c *collector) awaitCaches(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	for _, cache := range c.caches() {
		if err := cache.Synced(ctx); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "garbage is collected without one kind", "err", err)
		}
	}
}

func (c *collector) caches() []loop.Cache {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []loop.Cache
	for _, m := range c.monitors {
		out = append(out, m.cache)
	}
	return out
}

// identify finds the identity of the owner in a reference.
func (c *collector) identify(ref metav1.OwnerReference, dependent identity) (identity, bool) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return identity{}, false
	}
	c.mu.Lock()
	kind, ok := c.catalogue.Find(gv.WithKind(ref.Kind))
	c.mu.Unlock()
	if !ok {
		return identity{}, false
	}
	id := identity{kind: kind, name: ref.Name, uid: ref.UID}
	if kind.Namespaced {
		id.namespace = dependent.namespace
	}
	return id, true
}

func (c *collector) find(id identity) (fact, string, bool) {
	c.mu.Lock()
	m := c.monitors[id.kind.Resource]
	c.mu.Unlock()
	if m == nil {
		return fact{}, "", false
	}
	f, version, ok := m.find(informer.Key{Namespace: id.namespace, Name: id.name})
	return f, version, ok && f.uid == id.uid
}
