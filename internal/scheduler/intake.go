package scheduler

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/scheduler/internal/backlog"
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

// registration is a handler's registration with an informer of any type.
type registration interface {
	Synced(ctx context.Context) error
	Close()
	Done() <-chan struct{}
}

// registrations are all registrations of one term.
type registrations []registration

// follow adds handlers to the informers.
//
// All handlers use the current state of an object, not the change. So missed or merged changes make no difference.
func (t *term) follow() registrations {
	w := t.options.Watched
	a := registrations{
		followNews(t, w.Nodes, t.nodeChanged),
		followNews(t, w.Pods, t.podChanged),
	}
	if w.Namespaces != nil {
		a = append(a, follow(t, w.Namespaces, t.namespaceChanged))
	}
	a = append(a, t.followWorkloads()...)
	a = append(a, t.followBudgets()...)
	a = append(a, t.followStorage()...)
	return append(a, t.followDevices()...)
}

// followWorkloads adds handlers to the informers of services and workloads, by which pods are spread by default.
func (t *term) followWorkloads() registrations {
	w := t.options.Watched
	var a registrations
	if w.Services != nil {
		a = append(a, followSelectors(t, w.Services, func(s *corev1.Service) labels.Selector {
			return simpleSelector(s.Spec.Selector)
		}, t.state.SetService))
	}
	owner := func(kind string) func(namespace, name string, selector labels.Selector) {
		return func(namespace, name string, selector labels.Selector) {
			t.state.SetOwner(namespace, cluster.Owner{Kind: kind, Name: name}, selector)
		}
	}
	if w.ReplicationControllers != nil {
		a = append(a, followSelectors(t, w.ReplicationControllers, func(r *corev1.ReplicationController) labels.Selector {
			return simpleSelector(r.Spec.Selector)
		}, owner("ReplicationController")))
	}
	if w.ReplicaSets != nil {
		a = append(a, followSelectors(t, w.ReplicaSets, func(r *appsv1.ReplicaSet) labels.Selector {
			return fullSelector(r.Spec.Selector)
		}, owner("ReplicaSet")))
	}
	if w.StatefulSets != nil {
		a = append(a, followSelectors(t, w.StatefulSets, func(r *appsv1.StatefulSet) labels.Selector {
			return fullSelector(r.Spec.Selector)
		}, owner("StatefulSet")))
	}
	return a
}

// followSelectors sets the selector of each object in the state, or nil when the object was deleted.
func followSelectors[T any](t *term, objects *informer.Shared[T], of func(T) labels.Selector,
	set func(namespace, name string, selector labels.Selector),
) registration {
	return follow(t, objects, func(key informer.Key) string {
		var selector labels.Selector
		if object, ok := objects.Lookup(key); ok {
			selector = of(object)
		}
		t.lock()
		defer t.mu.Unlock()
		set(key.Namespace, key.Name, selector)
		return ""
	})
}

// simpleSelector returns nil for an empty set: a service without a selector selects nothing.
func simpleSelector(set map[string]string) labels.Selector {
	if len(set) == 0 {
		return nil
	}
	return labels.SelectorFromSet(set)
}

func fullSelector(selector *metav1.LabelSelector) labels.Selector {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || s.Empty() {
		return nil
	}
	return s
}

// synced waits until all initial objects have been handled.
func (a registrations) synced(ctx context.Context) error {
	for _, f := range a {
		if err := f.Synced(ctx); err != nil {
			return err
		}
	}
	return nil
}

// close removes the handlers. When it returns no handler is running.
func (a registrations) close() {
	for _, f := range a {
		f.Close()
	}
	for _, f := range a {
		<-f.Done()
	}
}

// follow adds a handler. It returns kube-scheduler's name of the event, or "" if that has none.
func follow[T any](t *term, objects *informer.Shared[T], changed func(informer.Key) (event string)) registration {
	return objects.Handle(informer.Handler[T]{
		Name: "scheduler",
		Changed: func(key informer.Key) {
			defer t.wakeLoop()
			t.handle(func() string { return changed(key) })
		},
	})
}

// followNews adds a handler that reads a change, for the lock's holder to handle.
func followNews[T any](t *term, objects *informer.Shared[T], read func(informer.Key) (change func() (event string))) registration {
	return objects.Handle(informer.Handler[T]{
		Name: "scheduler",
		Changed: func(key informer.Key) {
			defer t.wakeLoop()
			t.tell(read(key))
		},
	})
}

func (t *term) nodeChanged(key informer.Key) func() string {
	object, ok := t.options.Watched.Nodes.Lookup(key)
	if !ok {
		return func() string { return t.nodeGone(key.Name) }
	}
	return func() string { return t.nodeSet(object) }
}

func (t *term) nodeGone(name string) string {
	if t.state.RemoveNode(name) {
		t.wakeFor(cluster.NodeGone, nil)
	}
	return "NodeDelete"
}

func (t *term) nodeSet(object *corev1.Node) string {
	node, change := t.state.SetNode(object)
	t.wakeFor(change, node)
	if change == 0 {
		return "NodeUpdate"
	}
	return backlog.EventOf(change).String()
}

func (t *term) podChanged(key informer.Key) func() string {
	object, ok := t.options.Watched.Pods.Lookup(key)
	if !ok {
		return func() string { return t.podGone(cluster.Key(key)) }
	}
	switch pod := t.interner.Pod(object); {
	case pod.Finished:
		return func() string { return t.podGone(pod.Key) }
	case pod.Node != "":
		return func() string { return t.podPlaced(pod) }
	default:
		return func() string { return t.podWithoutNode(pod) }
	}
}

func (t *term) podGone(key cluster.Key) string {
	t.backlog.Remove(key)
	t.unnominate(&cluster.Pod{Key: key})
	node, ok := t.state.Remove(key)
	if !ok {
		return "UnschedulablePodDelete"
	}
	t.wakeFor(cluster.PodGone, node)
	return "AssignedPodDelete"
}

func (t *term) podPlaced(pod *cluster.Pod) string {
	t.backlog.Remove(pod.Key)
	_, was, assumed, known := t.state.Placed(pod.Key)
	if t.state.Nominated(pod.Key) != pod.Node {
		t.unnominate(pod)
	}
	change := t.state.Observe(pod)
	if known && was.Name != pod.Node {
		t.wakeFor(cluster.PodGone, was)
	}
	node, _ := t.state.NodeNamed(pod.Node)
	t.wakeFor(change, node)
	if known && !assumed {
		return "AssignedPodUpdate"
	}
	return "AssignedPodAdd"
}

func (t *term) podWithoutNode(pod *cluster.Pod) string {
	if t.state.Refresh(pod) {
		if t.backlog.Has(pod.Key) {
			t.backlog.Set(pod, time.Now())
		}
		return "UnschedulablePodUpdate" // its binding is in progress
	}
	if _, _, _, placed := t.state.Placed(pod.Key); placed {
		t.podGone(pod.Key) // another pod with the same name
	}
	if _, ours := t.profiles[pod.SchedulerName]; !ours || pod.Terminating {
		t.backlog.Remove(pod.Key)
		t.unnominate(pod)
		return "UnschedulablePodDelete"
	}
	old := t.backlog.Pod(pod.Key)
	t.followNomination(pod, old)
	t.backlog.Set(pod, time.Now())
	if len(pod.Gates) > 0 {
		t.reporter.gated(pod)
	}
	if old != nil {
		return "UnschedulablePodUpdate"
	}
	return "UnschedulablePodAdd"
}

// followNomination takes the nominated node from the API, if that has changed. A later decision of the scheduler stays
// until the API shows it.
func (t *term) followNomination(pod, old *cluster.Pod) {
	if old != nil && old.UID == pod.UID && old.NominatedNode == pod.NominatedNode {
		return
	}
	if node := t.state.Nominated(pod.Key); node == "" || node != pod.NominatedNode {
		t.unnominate(pod)
	}
	if pod.NominatedNode != "" {
		t.state.Nominate(pod, pod.NominatedNode)
	}
}

func (t *term) namespaceChanged(key informer.Key) string {
	object, ok := t.options.Watched.Namespaces.Lookup(key)
	t.lock()
	defer t.mu.Unlock()
	var labels map[string]string
	if ok {
		if labels = object.Labels; labels == nil {
			labels = map[string]string{}
		}
	}
	if t.state.SetNamespace(key.Name, labels) {
		t.wakeFor(cluster.NamespaceChanged, nil)
	}
	return ""
}
