package hollow

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/kubelet/gate"
	"github.com/millrace/millrace/internal/kubelet/worker"
)

// rooms counts the resources that the pods of each node have. Adding them up for each admission would cost more than
// everything else for that pod.
type rooms struct {
	each gate.Room

	mu       sync.Mutex // guards what follows
	taken    map[string]*gate.Taken
	admitted map[worker.Key]admittedPod
}

type admittedPod struct {
	node  string
	claim gate.Claim
}

func newRooms(capacity corev1.ResourceList) *rooms {
	return &rooms{each: gate.RoomOf(capacity), taken: map[string]*gate.Taken{}, admitted: map[worker.Key]admittedPod{}}
}

// admit adds a pod to its node, or returns why it is rejected.
func (r *rooms) admit(pod *corev1.Pod) *worker.Rejection {
	claim := gate.ClaimOf(pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.taken[pod.Spec.NodeName]
	if taken == nil {
		taken = &gate.Taken{}
		r.taken[pod.Spec.NodeName] = taken
	}
	if why := taken.Refuse(&claim, &r.each); why != nil {
		return why
	}
	taken.Add(&claim)
	r.admitted[informer.KeyOf(pod)] = admittedPod{pod.Spec.NodeName, claim}
	return nil
}

// release subtracts a pod's resources, if the pod was admitted.
func (r *rooms) release(key worker.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g, ok := r.admitted[key]; ok {
		r.taken[g.node].Remove(&g.claim)
		delete(r.admitted, key)
	}
}

// resize changes the resources of an admitted pod, or returns why there is no room.
func (r *rooms) resize(pod *corev1.Pod) *worker.Rejection {
	claim, key := gate.ClaimOf(pod), informer.KeyOf(pod)
	if why := r.each.TooLarge(&claim); why != nil {
		return why
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	g, ok := r.admitted[key]
	if !ok {
		return nil // the pod has ended
	}
	taken := r.taken[g.node]
	taken.Remove(&g.claim)
	if why := taken.Refuse(&claim, &r.each); why != nil {
		taken.Add(&g.claim)
		return &worker.Rejection{Reason: corev1.PodReasonDeferred, Message: why.Message}
	}
	taken.Add(&claim)
	r.admitted[key] = admittedPod{g.node, claim}
	return nil
}

// admit decides whether a node accepts a pod.
func (n *Nodes) admit(ctx context.Context, pod *corev1.Pod) *worker.Rejection {
	self, ok := n.nodes.Lookup(informer.Key{Name: pod.Spec.NodeName})
	if ok {
		if why := gate.WrongSystem(pod, self.Status.NodeInfo.OperatingSystem); why != nil {
			return why
		}
	}
	if why := n.rooms.admit(pod); why != nil {
		return why
	}
	if ok {
		if n.options.As != nil {
			ctx = n.options.As(ctx, self.Name)
		}
		if why := gate.Rejection(ctx, n.options.Clients.Kube, pod, self); why != nil {
			n.rooms.release(informer.KeyOf(pod))
			return why
		}
	}
	return nil
}

// report passes on a status. A pod that has ended uses no resources.
func (n *Nodes) report(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus, finished bool) {
	if finished {
		n.rooms.release(informer.KeyOf(pod))
	}
	n.reporter.Report(ctx, pod, status, finished)
}

// gone forgets a pod that is completely removed.
func (n *Nodes) gone(key worker.Key) {
	n.rooms.release(key)
	n.reporter.Forget(key)
}
