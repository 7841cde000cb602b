package tainteviction

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/controllers/podview"
)

// pendingEvictions remembers the pods of each node that are going to be evicted, so that a cancelled eviction can be reported.
type pendingEvictions struct {
	mu    sync.Mutex
	nodes map[string]map[types.UID]bool
}

// set stores which pods of a node are going to be evicted, and returns those before.
func (d *pendingEvictions) set(node string, now map[types.UID]bool) (before map[types.UID]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before = d.nodes[node]
	switch {
	case len(now) == 0:
		delete(d.nodes, node)
	case d.nodes == nil:
		d.nodes = map[string]map[types.UID]bool{node: now}
	default:
		d.nodes[node] = now
	}
	return before
}

// announceCancelled records events for pods that were going to be evicted and no longer are. Pods that were evicted meanwhile are
// not active.
func (e *controller) announceCancelled(node string, now map[types.UID]bool) {
	before := e.pendingEvictions.set(node, now)
	if len(before) == 0 {
		return
	}
	for pod := range podview.OnNode(e.pods, node) {
		if before[pod.UID] && !now[pod.UID] && pod.Active() {
			e.recordEvent(pod, "Cancelling deletion of Pod %s")
		}
	}
}

func (e *controller) recordEvent(pod *podview.Pod, format string) {
	e.recorder.Eventf(&corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		corev1.EventTypeNormal, "TaintManagerEviction", format, pod.Namespace+"/"+pod.Name)
}
