package endpointslicemirroring

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/controllers/internal/service"
	"github.com/millrace/millrace/controllers/internal/slice"
	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

const (
	name      = "endpointslice-mirroring-controller"
	managedBy = "endpointslicemirroring-controller.k8s.io"
)

// Entry is this loop among the others.
var Entry = loop.Entry{Name: name, Aliases: []string{"endpointslicemirroring"}, Source: "endpoint-slice-mirroring-controller", New: New}

type controller struct {
	kube      kubernetes.Interface
	recorder  loop.Recorder
	services  *informer.Shared[*corev1.Service]
	endpoints *informer.Shared[*corev1.Endpoints]
	slices    *informer.Shared[*discoveryv1.EndpointSlice]
	writes    loop.Writes
	owned     slice.Owned
}

// New makes the loop.
func New(c *loop.Clients) (loop.Runner, error) {
	m := &controller{
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

func (m *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	if err := m.writes.Settled(ctx, key); err != nil {
		return loop.Result{}, err
	}
	e, wanted := m.wanted(key)
	p := planFor(m.owned.Of(key), wanted)
	err := p.Apply(ctx, m.kube, key, &m.writes, m.slices)
	if err != nil && e != nil && !service.Passes(err) {
		m.recorder.Eventf(e, corev1.EventTypeWarning, "FailedToUpdateEndpointSlices", "Failed to update EndpointSlices for Endpoints %s: %v", key, err)
	}
	return loop.Result{}, err
}

// wanted returns the slices that should exist: none unless users maintain the Endpoints of a Service themselves.
func (m *controller) wanted(key loop.Key) (*corev1.Endpoints, []*discoveryv1.EndpointSlice) {
	e, ok := m.endpoints.Lookup(key)
	if !ok {
		m.writes.Forget(key)
		return nil, nil
	}
	s, ok := m.services.Lookup(key)
	if !ok || s.Spec.Selector != nil || e.DeletionTimestamp != nil || skips(e) {
		return nil, nil
	}
	return e, mirror(e)
}

// skips reports whether an Endpoints object must not be mirrored: users have opted out, or it is a leader election lock.
func skips(e *corev1.Endpoints) bool {
	_, lock := e.Annotations["control-plane.alpha.kubernetes.io/leader"]
	return lock || e.Labels[discoveryv1.LabelSkipMirror] == "true"
}
