package endpointslice

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/controllers/internal/service"
	"github.com/millrace/millrace/controllers/internal/slice"
	"github.com/millrace/millrace/controllers/podview"
	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

const name = "endpointslice-controller"

// Entry is this loop among the others.
var Entry = loop.Entry{Name: name, Aliases: []string{"endpointslice"}, Source: "endpoint-slice-controller", New: New}

type controller struct {
	kube     kubernetes.Interface
	recorder loop.Recorder
	services *informer.Shared[*corev1.Service]
	slices   *informer.Shared[*discoveryv1.EndpointSlice]
	pods     *informer.Shared[*podview.Pod]
	nodes    *informer.Shared[*corev1.Node]
	writes   loop.Writes
	pace     service.Pace
	triggers service.Triggers
	owned    slice.Owned
}

// New makes the loop.
func New(c *loop.Clients) (loop.Runner, error) {
	e := &controller{
		kube:     c.Kube,
		recorder: c.Recorder,
		services: loop.Informer(c, informer.For(c.Kube.CoreV1().Services(""))),
		slices:   loop.Informer(c, informer.For(c.Kube.DiscoveryV1().EndpointSlices(""))),
		nodes:    loop.Informer(c, informer.For(c.Kube.CoreV1().Nodes())),
		pods:     podview.Informer(c),
	}
	e.owned = slice.Index(e.slices, managedBy)
	l := &loop.Loop{Name: name, Clients: c, Workers: 5, Sync: e.sync}
	l.Watches = []loop.Watch{
		loop.Self(e.services),
		loop.Mapped(e.slices, e.owned.Keys),
		loop.Changes(e.nodes, e.rezoned),
		service.Watch(l, e.services, e.pods, &e.pace),
	}
	return l, nil
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
	if err := e.writes.Settled(ctx, key); err != nil {
		return loop.Result{}, err
	}
	s, ok := e.services.Lookup(key)
	if !ok || s.DeletionTimestamp != nil {
		e.writes.Forget(key)
		e.pace.Forget(key)
		e.triggers.Forget(key)
		return loop.Result{}, nil // the garbage collector deletes the slices
	}
	if !service.Selects(s) {
		return loop.Result{}, nil
	}
	pods := service.Pods(e.pods, s)
	e.pace.Set(key, len(pods))
	p := planFor(s, e.owned.Of(key), desired(s, pods, e.zone))
	p.Stamp(e.triggers.Oldest(key, s, pods))
	err := p.Apply(ctx, e.kube, key, &e.writes, e.slices)
	if err != nil && !service.Passes(err) {
		e.recorder.Eventf(s, corev1.EventTypeWarning, "FailedToUpdateEndpointSlices",
			"Error updating Endpoint Slices for Service %s/%s: %v", s.Namespace, s.Name, err)
	}
	return loop.Result{}, err
}

func families(s *corev1.Service) []discoveryv1.AddressType {
	var out []discoveryv1.AddressType
	for _, family := range service.Families(s) {
		out = append(out, discoveryv1.AddressType(family))
	}
	return out
}
