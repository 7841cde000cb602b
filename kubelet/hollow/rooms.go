package hollow

import (
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/kubelet/gate"
	"github.com/millrace/millrace/kubelet/worker"
)

// rooms counts what the pods of each node have taken. To add it up anew for each pod that is admitted would cost more than
// everything else that is done for the pod.
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

// let lets a pod in, or says why not.
func (r *rooms) let(pod *corev1.Pod) *worker.Rejection {
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

// leave gives back what a pod has taken, if it has.
func (r *rooms) leave(key worker.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g, ok := r.admitted[key]; ok {
		r.taken[g.node].Remove(&g.claim)
		delete(r.admitted, key)
	}
}

// resize decides whether there is room for a pod whose resources have changed, which has it from then on.
func (r *rooms) resize(pod *corev1.Pod) *worker.Rejection {
	claim, key := gate.ClaimOf(pod), informer.KeyOf(pod)
	if why := r.each.TooLarge(&claim); why != nil {
		return why
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	g, ok := r.admitted[key]
	if !ok {
		return nil // it has ended
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

// admit decides whether a node takes a pod.
func (n *Nodes) admit(pod *corev1.Pod) *worker.Rejection {
	if why := n.rooms.let(pod); why != nil {
		return why
	}
	if self, ok := n.nodes.Lookup(informer.Key{Name: pod.Spec.NodeName}); ok {
		if why := gate.Unsuited(pod, self); why != nil {
			n.rooms.leave(informer.KeyOf(pod))
			return why
		}
	}
	return nil
}

// report hands a status on. Who has ended needs no room.
func (n *Nodes) report(pod *corev1.Pod, status *corev1.PodStatus, finished bool) {
	if finished {
		n.rooms.leave(informer.KeyOf(pod))
	}
	n.reporter.Report(pod, status, finished)
}

// gone forgets a pod of which nothing is left.
func (n *Nodes) gone(key worker.Key) {
	n.rooms.leave(key)
	n.reporter.Forget(key)
}
