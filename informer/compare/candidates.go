package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace/millrace/informer"
)

// subject is an informer of either library, in the form that the measurements need.
type subject interface {
	run(ctx context.Context)
	synced(ctx context.Context) error
	// handle adds a handler that calls seen with the revision of each object that it receives.
	handle(seen func(revision string))
	byNode(node string) int
}

var candidateNames = []string{"client-go", "millrace", "millrace-func-index", "millrace-decoded", "millrace-keys", "millrace-projection"}

func newSubject(name string, clientset kubernetes.Interface) (subject, error) {
	pods := informer.For(clientset.CoreV1().Pods(""))
	options := informer.Options[*corev1.Pod]{DropManagedFields: true, Indexes: []*informer.Index[*corev1.Pod]{byNodeField}}
	switch name {
	case "client-go":
		return newClientGo(clientset), nil
	case "millrace":
		return &millrace{Shared: informer.New(pods, options), byField: byNodeField}, nil
	case "millrace-func-index":
		options.Indexes = []*informer.Index[*corev1.Pod]{byNodeOf}
		return &millrace{Shared: informer.New(pods, options), byField: byNodeOf}, nil
	case "millrace-keys":
		return &millrace{Shared: informer.New(pods, options), byField: byNodeField, keys: true}, nil
	case "millrace-decoded":
		options.HotBytes = -1
		return &millrace{Shared: informer.New(pods, options), byField: byNodeField}, nil
	case "millrace-projection":
		return &projected{informer.Project(pods, project, informer.Options[placement]{DropManagedFields: true,
			Indexes: []*informer.Index[placement]{byPlacement}})}, nil
	}
	return nil, fmt.Errorf("no candidate %q", name)
}

const nodeField = "spec.nodeName"

func nodeOf(pod *corev1.Pod) []string { return []string{pod.Spec.NodeName} }

var (
	byNodeField = informer.FieldIndex[*corev1.Pod](nodeField)
	byNodeOf    = informer.NewIndex(nodeOf)
	byPlacement = informer.NewIndex(func(p placement) []string { return []string{p.Node} })
)

// clientGo is client-go's shared informer, used as its documentation advises for large clusters.
type clientGo struct{ cache.SharedIndexInformer }

func newClientGo(clientset kubernetes.Interface) subject {
	shared := informers.NewSharedInformerFactory(clientset, 0).Core().V1().Pods().Informer()
	_ = shared.SetTransform(func(object any) (any, error) {
		if o, ok := object.(metav1.Object); ok {
			o.SetManagedFields(nil)
		}
		return object, nil
	})
	_ = shared.AddIndexers(cache.Indexers{nodeField: func(object any) ([]string, error) { return nodeOf(object.(*corev1.Pod)), nil }})
	return &clientGo{shared}
}

func (c *clientGo) run(ctx context.Context) { c.RunWithContext(ctx) }

func (c *clientGo) synced(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), c.HasSynced) {
		return ctx.Err()
	}
	return nil
}

func (c *clientGo) handle(seen func(string)) {
	_, _ = c.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, new any) { seen(new.(*corev1.Pod).ResourceVersion) }})
}

func (c *clientGo) byNode(node string) int {
	found, _ := c.GetIndexer().ByIndex(nodeField, node)
	names := 0
	for _, object := range found {
		names += len(object.(*corev1.Pod).Name)
	}
	return names
}

// millrace is this project's informer.
type millrace struct {
	*informer.Shared[*corev1.Pod]
	byField *informer.Index[*corev1.Pod]
	keys    bool // handlers need no objects
}

func (m *millrace) run(ctx context.Context)          { _ = m.Run(ctx) }
func (m *millrace) synced(ctx context.Context) error { return m.Synced(ctx) }

func (m *millrace) handle(seen func(string)) {
	if m.keys {
		m.Handle(informer.Handler[*corev1.Pod]{Changed: func(informer.Key) { seen("") }})
		return
	}
	m.Handle(informer.Handler[*corev1.Pod]{Updated: func(_, new *corev1.Pod) { seen(new.ResourceVersion) }})
}

func (m *millrace) byNode(node string) int {
	names := 0
	for pod := range m.By(m.byField, node) {
		names += len(pod.Name)
	}
	return names
}

// placement is a projection: what a scheduler might need of a pod.
type placement struct {
	Node     string
	App      string
	Phase    corev1.PodPhase
	MilliCPU int64
	Memory   int64
	Revision string
}

func project(pod *corev1.Pod) placement {
	p := placement{Node: pod.Spec.NodeName, App: pod.Labels["app.kubernetes.io/name"], Phase: pod.Status.Phase, Revision: pod.ResourceVersion}
	for _, c := range pod.Spec.Containers {
		p.MilliCPU += c.Resources.Requests.Cpu().MilliValue()
		p.Memory += c.Resources.Requests.Memory().Value()
	}
	return p
}

type projected struct{ *informer.Shared[placement] }

func (p *projected) run(ctx context.Context)          { _ = p.Run(ctx) }
func (p *projected) synced(ctx context.Context) error { return p.Synced(ctx) }

func (p *projected) handle(seen func(string)) {
	p.Handle(informer.Handler[placement]{Updated: func(_, new placement) { seen(new.Revision) }})
}

func (p *projected) byNode(node string) int {
	names := 0
	for placed := range p.By(byPlacement, node) {
		names += len(placed.App)
	}
	return names
}
