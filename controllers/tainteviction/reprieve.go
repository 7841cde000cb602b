package tainteviction

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/controllers/podview"
)

// doomed remembers the pods of each node that are going to be evicted, so that users hear of it when they no longer are.
type doomed struct {
	mu    sync.Mutex
	nodes map[string]map[types.UID]bool
}

// set notes which pods of a node are doomed now, and returns those that were before.
func (d *doomed) set(node string, now map[types.UID]bool) (before map[types.UID]bool) {
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

// reprieve tells users of pods that were going to be evicted and are no longer. What was evicted meanwhile is not active.
func (e *controller) reprieve(node string, now map[types.UID]bool) {
	before := e.doomed.set(node, now)
	if len(before) == 0 {
		return
	}
	for pod := range podview.OnNode(e.pods, node) {
		if before[pod.UID] && !now[pod.UID] && pod.Active() {
			e.tell(pod, "Cancelling deletion of Pod %s")
		}
	}
}

func (e *controller) tell(pod *podview.Pod, format string) {
	e.recorder.Eventf(&corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		corev1.EventTypeNormal, "TaintManagerEviction", format, pod.Namespace+"/"+pod.Name)
}
