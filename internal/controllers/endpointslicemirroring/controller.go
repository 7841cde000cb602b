package endpointslicemirroring

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/meter"
	"github.com/millrace/millrace/internal/controllers/internal/service"
	"github.com/millrace/millrace/internal/controllers/internal/slice"
	"github.com/millrace/millrace/loop"
)

const (
	name      = "endpointslice-mirroring-controller"
	managedBy = "endpointslicemirroring-controller.k8s.io"
)

// Entry is this loop among the others, without metrics.
var Entry = Options{}.Entry()

// Options configure the loop.
type Options struct {
	// Metrics counts slices and endpoints, by Endpoints object.
	Metrics *Metrics
}

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	return loop.Entry{Name: name, Aliases: []string{"endpointslicemirroring"}, Source: "endpoint-slice-mirroring-controller", New: o.new}
}

type controller struct {
	metrics   *Metrics
	kube      kubernetes.Interface
	recorder  loop.Recorder
	services  *informer.Shared[*corev1.Service]
	endpoints *informer.Shared[*corev1.Endpoints]
	slices    *informer.Shared[*discoveryv1.EndpointSlice]
	owned     slice.Owned
}

func (o Options) new(c *loop.Clients) (loop.Runner, error) {
	if o.Metrics == nil {
		o.Metrics = NewMetrics(meter.New(nil))
	}
	m := &controller{
		metrics:   o.Metrics,
		kube:      c.Kube,
		recorder:  c.Recorder,
		services:  loop.Informer(c, informer.For(c.Kube.CoreV1().Services(""))),
		endpoints: loop.Informer(c, informer.For(c.Kube.CoreV1().Endpoints(""))),
		slices:    loop.Informer(c, informer.For(c.Kube.DiscoveryV1().EndpointSlices(""))),
	}
	m.owned = slice.Index(m.slices, managedBy)
	l := &loop.Loop{Name: name, Clients: c, Workers: 5, Sync: m.sync}
	l.Watches = []loop.Watch{loop.Self(m.endpoints), loop.Self(m.services), loop.Mapped(m.slices, m.owned.Keys)}
	return l, nil
}

func (c *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	began := time.Now()
	e, wanted := c.wanted(key)
	existing := c.owned.Of(key)
	p := planFor(existing, wanted)
	done := p.Sync(existing)
	err := p.Apply(ctx, c.kube, key, c.slices)
	done.Took, done.Err = time.Since(began), err
	c.measure(key, e, wanted, done)
	if err != nil && e != nil && !service.Passes(err) {
		c.recorder.Eventf(e, corev1.EventTypeWarning, "FailedToUpdateEndpointSlices", "Failed to update EndpointSlices for Endpoints %s: %v", key, err)
	}
	return loop.Result{}, err
}

// measure counts a sync.
func (c *controller) measure(key loop.Key, e *corev1.Endpoints, wanted []*discoveryv1.EndpointSlice, done slice.Sync) {
	if e == nil {
		if done.Deleted > 0 {
			c.metrics.Synced(key, done)
		}
		c.metrics.Gone(key)
		return
	}
	done.Ideal = len(wanted)
	for _, w := range wanted {
		done.Endpoints += len(w.Endpoints)
	}
	for i := range e.Subsets {
		done.Skipped += len(e.Subsets[i].Addresses) + len(e.Subsets[i].NotReadyAddresses)
	}
	done.Skipped -= done.Endpoints
	c.metrics.Synced(key, done)
}

// wanted returns the slices that should exist: none unless users maintain the Endpoints of a Service themselves.
func (c *controller) wanted(key loop.Key) (*corev1.Endpoints, []*discoveryv1.EndpointSlice) {
	e, ok := c.endpoints.Lookup(key)
	if !ok {
		return nil, nil
	}
	s, ok := c.services.Lookup(key)
	if !ok || s.Spec.Selector != nil || e.DeletionTimestamp != nil || skips(e) {
		return nil, nil
	}
	return e, mirror(e)
}

// skips reports whether an Endpoints object must not be mirrored: users have opted out, or it is a leader election
// lock.
func skips(e *corev1.Endpoints) bool {
	_, lock := e.Annotations["control-plane.alpha.kubernetes.io/leader"]
	return lock || e.Labels[discoveryv1.LabelSkipMirror] == "true"
}
