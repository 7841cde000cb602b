package gate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/demand"
	"github.com/millrace/millrace/kubelet/worker"
)

// Claim is what a pod takes of a node.
type Claim struct {
	requests demand.Resources
	ports    []demand.Port
}

// ClaimOf is what a pod's spec asks for.
func ClaimOf(pod *corev1.Pod) Claim {
	return Claim{requests: demand.SpecRequests(&pod.Spec), ports: demand.HostPorts(&pod.Spec)}
}

// Room is what a node has for pods.
type Room struct {
	amounts demand.Resources
	pods    int64
}

// RoomOf is what a node says that it has.
func RoomOf(allocatable corev1.ResourceList) Room {
	return Room{amounts: demand.ResourcesOf(allocatable), pods: allocatable.Pods().Value()}
}

// TooLarge says why a claim would not fit into a room even if no other pod were there.
func (r *Room) TooLarge(c *Claim) *worker.Rejection {
	for _, name := range r.counted(c) {
		asked, _ := c.requests.Get(name)
		if has, _ := r.amounts.Get(name); asked > has {
			return &worker.Rejection{Reason: corev1.PodReasonInfeasible, Message: fmt.Sprintf(
				"Node didn't have enough capacity: %s, requested: %d, capacity: %d", name, asked, has)}
		}
	}
	return nil
}

// counted are the resources that a claim is compared in. An extended resource that the node does not have at all is not
// compared: somebody else provides it, for the cluster as a whole.
func (r *Room) counted(c *Claim) []corev1.ResourceName {
	names := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	for _, name := range slices.Sorted(maps.Keys(c.requests.Extended)) {
		_, has := r.amounts.Extended[name]
		if has || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			names = append(names, name)
		}
	}
	return names
}

// Taken is what pods have taken of a node. The zero value is a node without pods.
type Taken struct {
	amounts demand.Resources
	pods    int64
	ports   demand.PortSet
}

// Add takes what a pod claims.
func (t *Taken) Add(c *Claim) {
	t.pods++
	t.amounts.Add(c.requests)
	t.ports.Add(c.ports)
}

// Remove gives back what a pod had claimed.
func (t *Taken) Remove(c *Claim) {
	t.pods--
	t.amounts.Subtract(c.requests)
	t.ports.Remove(c.ports)
}

// Refuse says why a claim does not fit beside what is taken. Nil means that it does.
func (t *Taken) Refuse(c *Claim, r *Room) *worker.Rejection {
	if t.pods >= r.pods {
		return outOf(corev1.ResourcePods, 1, t.pods, r.pods)
	}
	for _, name := range r.counted(c) {
		asked, _ := c.requests.Get(name)
		used, _ := t.amounts.Get(name)
		if has, _ := r.amounts.Get(name); asked > 0 && used+asked > has {
			return outOf(name, asked, used, has)
		}
	}
	if t.ports.Conflicts(c.ports) {
		return &worker.Rejection{Reason: "NodePorts", Message: "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"}
	}
	return nil
}

func outOf(name corev1.ResourceName, asked, used, has int64) *worker.Rejection {
	return &worker.Rejection{Reason: "OutOf" + string(name), Message: fmt.Sprintf(
		"Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, asked, used, has)}
}
