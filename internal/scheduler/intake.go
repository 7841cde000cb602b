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
func (k *knowledge) follow() registrations {
	w := k.options.Watched
	a := registrations{
		followNews(k, w.Nodes, k.nodeChanged),
		followNews(k, w.Pods, k.podChanged),
	}
	if w.Namespaces != nil {
		a = append(a, follow(k, w.Namespaces, k.namespaceChanged))
	}
	a = append(a, k.followWorkloads()...)
	a = append(a, k.followBudgets()...)
	a = append(a, k.followStorage()...)
	return append(a, k.followDevices()...)
}

// followWorkloads adds handlers to the informers of services and workloads, by which pods are spread by default.
func (k *knowledge) followWorkloads() registrations {
	w := k.options.Watched
	var a registrations
	if w.Services != nil {
		a = append(a, followSelectors(k, w.Services, func(s *corev1.Service) labels.Selector {
			return simpleSelector(s.Spec.Selector)
		}, k.state.SetService))
	}
	owner := func(kind string) func(namespace, name string, selector labels.Selector) {
		return func(namespace, name string, selector labels.Selector) {
			k.state.SetOwner(namespace, cluster.Owner{Kind: kind, Name: name}, selector)
		}
	}
	if w.ReplicationControllers != nil {
		a = append(a, followSelectors(k, w.ReplicationControllers, func(r *corev1.ReplicationController) labels.Selector {
			return simpleSelector(r.Spec.Selector)
		}, owner("ReplicationController")))
	}
	if w.ReplicaSets != nil {
		a = append(a, followSelectors(k, w.ReplicaSets, func(r *appsv1.ReplicaSet) labels.Selector {
			return fullSelector(r.Spec.Selector)
		}, owner("ReplicaSet")))
	}
	if w.StatefulSets != nil {
		a = append(a, followSelectors(k, w.StatefulSets, func(r *appsv1.StatefulSet) labels.Selector {
			return fullSelector(r.Spec.Selector)
		}, owner("StatefulSet")))
	}
	return a
}

// followSelectors sets the selector of each object in the state, or nil when the object was deleted.
func followSelectors[T any](k *knowledge, objects *informer.Shared[T], of func(T) labels.Selector,
	set func(namespace, name string, selector labels.Selector),
) registration {
	return follow(k, objects, func(key informer.Key) string {
		var selector labels.Selector
		if object, ok := objects.Lookup(key); ok {
			selector = of(object)
		}
		k.lock()
		defer k.mu.Unlock()
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
func follow[T any](k *knowledge, objects *informer.Shared[T], changed func(informer.Key) (event string)) registration {
	return objects.Handle(informer.Handler[T]{
		Name: "scheduler",
		Changed: func(key informer.Key) {
			defer k.wakeLoop()
			k.handle(func() string { return changed(key) })
		},
	})
}

// followNews adds a handler that reads a change, for the lock's holder to handle.
func followNews[T any](k *knowledge, objects *informer.Shared[T], read func(informer.Key) (change func() (event string))) registration {
	return objects.Handle(informer.Handler[T]{
		Name: "scheduler",
		Changed: func(key informer.Key) {
			defer k.wakeLoop()
			k.tell(read(key))
		},
	})
}

func (k *knowledge) nodeChanged(key informer.Key) func() string {
	object, ok := k.options.Watched.Nodes.Lookup(key)
	if !ok {
		return func() string { return k.nodeGone(key.Name) }
	}
	return func() string { return k.nodeSet(object) }
}

func (k *knowledge) nodeGone(name string) string {
	if k.state.RemoveNode(name) {
		k.wakeFor(cluster.NodeGone, nil)
	}
	return "NodeDelete"
}

func (k *knowledge) nodeSet(object *corev1.Node) string {
	node, change := k.state.SetNode(object)
	k.wakeFor(change, node)
	if change == 0 {
		return "NodeUpdate"
	}
	return backlog.EventOf(change).String()
}

func (k *knowledge) podChanged(key informer.Key) func() string {
	object, ok := k.options.Watched.Pods.Lookup(key)
	if !ok {
		return func() string { return k.podGone(cluster.Key(key)) }
	}
	switch pod := k.interner.Pod(object); {
	case pod.Finished:
		return func() string { return k.podGone(pod.Key) }
	case pod.Node != "":
		return func() string { return k.podPlaced(pod) }
	default:
		return func() string { return k.podWithoutNode(pod) }
	}
}

func (k *knowledge) podGone(key cluster.Key) string {
	k.backlog.Remove(key)
	k.unnominate(&cluster.Pod{Key: key})
	node, ok := k.state.Remove(key)
	if !ok {
		return "UnschedulablePodDelete"
	}
	k.wakeFor(cluster.PodGone, node)
	return "AssignedPodDelete"
}

func (k *knowledge) podPlaced(pod *cluster.Pod) string {
	k.backlog.Remove(pod.Key)
	_, was, assumed, known := k.state.Placed(pod.Key)
	if k.state.Nominated(pod.Key) != pod.Node {
		k.unnominate(pod)
	}
	change := k.state.Observe(pod)
	if known && was.Name != pod.Node {
		k.wakeFor(cluster.PodGone, was)
	}
	node, _ := k.state.NodeNamed(pod.Node)
	k.wakeFor(change, node)
	if known && !assumed {
		return "AssignedPodUpdate"
	}
	return "AssignedPodAdd"
}

func (k *knowledge) podWithoutNode(pod *cluster.Pod) string {
	if k.state.Refresh(pod) {
		if k.backlog.Has(pod.Key) {
			k.backlog.Set(pod, time.Now())
		}
		return "UnschedulablePodUpdate" // its binding is in progress
	}
	if _, _, _, placed := k.state.Placed(pod.Key); placed {
		k.podGone(pod.Key) // another pod with the same name
	}
	if _, ours := k.profiles[pod.SchedulerName]; !ours || pod.Terminating {
		k.backlog.Remove(pod.Key)
		k.unnominate(pod)
		return "UnschedulablePodDelete"
	}
	old := k.backlog.Pod(pod.Key)
	k.followNomination(pod, old)
	k.backlog.Set(pod, time.Now())
	if len(pod.Gates) > 0 {
		k.reporter.gated(pod)
	}
	if old != nil {
		return "UnschedulablePodUpdate"
	}
	return "UnschedulablePodAdd"
}

// followNomination takes the nominated node from the API, if that has changed. A later decision of the scheduler stays
// until the API shows it.
func (k *knowledge) followNomination(pod, old *cluster.Pod) {
	if old != nil && old.UID == pod.UID && old.NominatedNode == pod.NominatedNode {
		return
	}
	if node := k.state.Nominated(pod.Key); node == "" || node != pod.NominatedNode {
		k.unnominate(pod)
	}
	if pod.NominatedNode != "" {
		k.state.Nominate(pod, pod.NominatedNode)
	}
}

func (k *knowledge) namespaceChanged(key informer.Key) string {
	object, ok := k.options.Watched.Namespaces.Lookup(key)
	k.lock()
	defer k.mu.Unlock()
	var labels map[string]string
	if ok {
		if labels = object.Labels; labels == nil {
			labels = map[string]string{}
		}
	}
	if k.state.SetNamespace(key.Name, labels) {
		k.wakeFor(cluster.NamespaceChanged, nil)
	}
	return ""
}
