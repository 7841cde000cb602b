package tainteviction

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/controllers/podview"
)

// pods are some pods of a node.
type pods map[types.UID]types.NamespacedName

func (p pods) add(pod *podview.Pod) {
	p[pod.UID] = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// pendingEvictions remembers the pods of each node that are going to be evicted later, so that a cancelled eviction can
// be reported.
type pendingEvictions struct {
	mu    sync.Mutex // guards nodes
	nodes map[string]pods
}

// set stores which pods of a node are going to be evicted, and returns those before.
func (d *pendingEvictions) set(node string, now pods) (before pods) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before = d.nodes[node]
	switch {
	case len(now) == 0:
		delete(d.nodes, node)
	case d.nodes == nil:
		d.nodes = map[string]pods{node: now}
	default:
		d.nodes[node] = now
	}
	return before
}

// has tells whether a pod was going to be evicted when its node was looked at last.
func (d *pendingEvictions) has(node string, pod types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, there := d.nodes[node][pod]
	return there
}

// announceCancelled records events for pods that were going to be evicted and no longer are, because they may stay,
// must go at once, or are gone. The time of some has run out; they are evicted as it was said.
func (e *controller) announceCancelled(node string, waiting, expired pods) {
	for uid, name := range e.pendingEvictions.set(node, waiting) {
		_, waits := waiting[uid]
		_, expires := expired[uid]
		if !waits && !expires {
			e.recordEvent(uid, name, "Cancelling deletion of Pod %s")
		}
	}
}

func (e *controller) recordEvent(uid types.UID, pod types.NamespacedName, format string) {
	e.recorder.Eventf(&corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: uid},
		corev1.EventTypeNormal, "TaintManagerEviction", format, pod.Namespace+"/"+pod.Name)
}
