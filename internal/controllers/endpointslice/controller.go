package endpointslice

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
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

const name = "endpointslice-controller"

// Entry is this loop among the others, without metrics.
var Entry = Options{}.Entry()

// Options configure the loop.
type Options struct {
	// Metrics counts slices and endpoints, by Service.
	Metrics *Metrics
}

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	return loop.Entry{Name: name, Aliases: []string{"endpointslice"}, Source: "endpoint-slice-controller", New: o.new}
}

type controller struct {
	metrics  *Metrics
	kube     kubernetes.Interface
	recorder loop.Recorder
	services *informer.Shared[*corev1.Service]
	slices   *informer.Shared[*discoveryv1.EndpointSlice]
	pods     *informer.Shared[*podview.Pod]
	nodes    *informer.Shared[*corev1.Node]
	pace     service.Pace
	triggers service.Triggers
	owned    slice.Owned
}

func (o Options) new(c *loop.Clients) (loop.Runner, error) {
	if o.Metrics == nil {
		o.Metrics = NewMetrics(meter.New(nil))
	}
	e := &controller{
		metrics:  o.Metrics,
		kube:     c.Kube,
		recorder: c.Recorder,
		services: loop.Informer(c, informer.For(c.Kube.CoreV1().Services(""))),
		slices:   loop.Informer(c, informer.For(c.Kube.DiscoveryV1().EndpointSlices(""))),
		nodes:    loop.Informer(c, informer.For(c.Kube.CoreV1().Nodes())),
		pods:     podview.Informer(c),
	}
	e.owned = slice.Index(e.slices, managedBy)
	return &loop.Loop{Name: name, Clients: c, Workers: 5, Sync: e.sync, Watches: []loop.Watch{
		loop.Self(e.services),
		loop.Mapped(e.slices, e.owned.Keys),
		loop.Changes(e.nodes, e.rezoned),
		service.Watch(e.services, e.pods, &e.pace),
	}}, nil
}

// rezoned wakes the Services with pods on a node whose zone has changed. That is rare.
func (e *controller) rezoned(before, after *corev1.Node) []loop.Key {
	if before == nil || after == nil || before.Labels[corev1.LabelTopologyZone] == after.Labels[corev1.LabelTopologyZone] {
		return nil
	}
	var keys []loop.Key
	for pod := range podview.OnNode(e.pods, after.Name) {
		for s := range e.services.ListNamespace(pod.Namespace) {
			if service.Matches(s, pod.Labels) {
				keys = append(keys, informer.KeyOf(s))
			}
		}
	}
	return keys
}

func (e *controller) zone(node string) string {
	n, ok := e.nodes.Get("", node)
	if !ok {
		return ""
	}
	return n.Labels[corev1.LabelTopologyZone]
}

func (e *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	s, ok := e.services.Lookup(key)
	if !ok || s.DeletionTimestamp != nil {
		e.pace.Forget(key)
		e.triggers.Forget(key)
		e.metrics.Gone(key)
		return loop.Result{}, nil // the garbage collector deletes the slices
	}
	if !service.Selects(s) {
		e.metrics.Gone(key)
		return loop.Result{}, nil
	}
	began := time.Now()
	pods := service.Pods(e.pods, s)
	e.pace.Set(key, len(pods))
	existing, wanted := e.owned.Of(key), desired(s, pods, e.zone)
	p := planFor(s, existing, wanted)
	p.Stamp(e.triggers.Oldest(key, s, pods))
	done := p.Sync(existing)
	err := p.Apply(ctx, e.kube, key, e.slices)
	done.Took, done.Err = time.Since(began), err
	e.measure(key, s, wanted, done)
	if err != nil && !service.Passes(err) {
		e.recorder.Eventf(s, corev1.EventTypeWarning, "FailedToUpdateEndpointSlices",
			"Error updating Endpoint Slices for Service %s/%s: %v", s.Namespace, s.Name, err)
	}
	return loop.Result{}, err
}

// measure counts a sync.
func (e *controller) measure(key loop.Key, s *corev1.Service, wanted map[groupKey]*group, done slice.Sync) {
	for _, g := range wanted {
		done.Endpoints += len(g.endpoints)
		done.Ideal += max(1, (len(g.endpoints)+maxEndpoints-1)/maxEndpoints)
	}
	if d := s.Spec.TrafficDistribution; d != nil {
		done.Distribution = *d
	}
	e.metrics.Synced(key, done)
}

func families(s *corev1.Service) []discoveryv1.AddressType {
	var out []discoveryv1.AddressType
	for _, family := range service.Families(s) {
		out = append(out, discoveryv1.AddressType(family))
	}
	return out
}
