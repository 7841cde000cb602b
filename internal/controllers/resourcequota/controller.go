// Package resourcequota counts what each ResourceQuota's namespace uses, and writes it to the status, which admission
// charges and users read.
//
// Guarantees: eventually the status of a quota has the limits of its spec, and the usage of each resource whose kind
// discovery shows. A count that is higher than the status is written at once. A lower one is written only when nothing
// was charged to the quota for a moment: admission charges before it stores, so a charge may be in the status before
// its object is in any cache. A kind is watched from when the first quota names it, so a cluster without quotas pays
// nothing, until its definition is deleted.
package resourcequota

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/kinds"
	"github.com/millrace/millrace/loop"
)

// Entry is this loop among the others.
var Entry = loop.Entry{Name: name, Aliases: []string{"resourcequota"}, New: New}

const (
	name = "resourcequota-controller"
	// recount is when a quota is counted again even if nothing has changed: a charge for an object that was then not
	// stored leaves no other trace.
	recount = 5 * time.Minute
	// gather is how long changes are combined before a count.
	gather = 200 * time.Millisecond
	// quiet is how long nothing may be charged before a lower usage is written.
	quiet = 500 * time.Millisecond
	// rediscovery is how long the result of discovery is used.
	rediscovery = 30 * time.Second
)

type controller struct {
	kube      kubernetes.Interface
	metadata  metadata.Interface
	discovery discovery.DiscoveryInterface
	log       *slog.Logger
	now       func() time.Time
	quotas    *informer.Shared[*corev1.ResourceQuota]
	loop      *loop.Loop

	mu        sync.Mutex // guards what follows
	life      context.Context
	running   sync.WaitGroup
	counters  map[schema.GroupResource]*counter
	catalogue *kinds.Catalogue
	asked     time.Time // when discovery was read
	lower     map[loop.Key]doubt
}

// doubt is a version of a quota that may claim too much usage.
type doubt struct {
	version string
	since   time.Time
}

// New returns the loop. It needs the metadata client.
func New(c *loop.Clients) (loop.Runner, error) {
	r := &controller{
		kube: c.Kube, metadata: c.Metadata, discovery: c.Discovery, log: c.Log, now: c.Now,
		quotas: loop.Informer(c, informer.For(c.Kube.CoreV1().ResourceQuotas(""))),
	}
	r.loop = &loop.Loop{Name: name, Clients: c, Workers: 5, Sync: r.sync, Watches: []loop.Watch{loop.Self(r.quotas)}}
	return r, nil
}

// Run counts until ctx ends.
func (r *controller) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer r.running.Wait()
	defer cancel()
	r.mu.Lock()
	r.life, r.counters, r.lower = ctx, map[schema.GroupResource]*counter{}, map[loop.Key]doubt{}
	r.mu.Unlock()
	return r.loop.Run(ctx)
}

// sync counts one quota.
func (r *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	q, ok := r.quotas.Lookup(key)
	if !ok {
		r.sure(key)
		return loop.Result{}, nil
	}
	used, all, err := r.count(ctx, q)
	if err != nil {
		return loop.Result{}, err
	}
	again := recount
	if !all {
		again = rediscovery
	}
	status := corev1.ResourceQuotaStatus{Hard: q.Spec.Hard.DeepCopy(), Used: used}
	if apiequality.Semantic.DeepEqual(q.Status, status) {
		r.sure(key)
		return loop.Result{After: again}, nil
	}
	if less(used, q.Status.Used) && !r.stillLess(key, q.ResourceVersion) {
		return loop.Result{After: quiet}, nil
	}
	return loop.Result{After: again}, r.write(ctx, key, q, status)
}

func (r *controller) write(ctx context.Context, key loop.Key, q *corev1.ResourceQuota, status corev1.ResourceQuotaStatus) error {
	changed := *q
	changed.Status = status
	// If the cache is behind, even our own write, this leads to a conflict.
	if _, err := r.kube.CoreV1().ResourceQuotas(q.Namespace).UpdateStatus(ctx, &changed, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("write status of quota %s: %w", key, err)
	}
	r.sure(key)
	return nil
}

// less reports whether the usage of some resource is lower than before.
func less(used, was corev1.ResourceList) bool {
	for name, q := range was {
		if now, ok := used[name]; ok && now.Cmp(q) < 0 {
			return true
		}
	}
	return false
}

// stillLess reports whether nothing was charged to the quota since a lower usage was first found, some time ago.
func (r *controller) stillLess(key loop.Key, version string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d, ok := r.lower[key]; ok && d.version == version {
		return r.now().Sub(d.since) >= quiet
	}
	r.lower[key] = doubt{version, r.now()}
	return false
}

func (r *controller) sure(key loop.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.lower, key)
}
