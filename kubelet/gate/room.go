package gate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace/millrace/kubelet/worker"
)

// counted are the resources that a node counts, beside pods and ports.
var counted = [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// amounts are how much of each: thousandths of a processor, and bytes.
type amounts [len(counted)]int64

// Claim is what a pod takes of a node.
type Claim struct {
	amounts
	ports []hostPort
}

type hostPort struct {
	protocol corev1.Protocol
	number   int32
}

// ClaimOf is what a pod asks for.
func ClaimOf(pod *corev1.Pod) Claim {
	var c Claim
	for i, name := range counted {
		q := Requested(pod, name)
		c.amounts[i] = inUnits(name, q)
	}
	for i := range pod.Spec.Containers {
		for _, p := range pod.Spec.Containers[i].Ports {
			if p.HostPort != 0 {
				c.ports = append(c.ports, hostPort{p.Protocol, p.HostPort})
			}
		}
	}
	return c
}

// Requested is how much of a resource a pod asks for: what its containers and sidecars need together, or its largest init
// container if that is more.
func Requested(pod *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	var sum, sidecars, most resource.Quantity
	for i := range pod.Spec.Containers {
		sum.Add(pod.Spec.Containers[i].Resources.Requests[name])
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		need := c.Resources.Requests[name]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars.Add(need)
			continue
		}
		need.Add(sidecars)
		if need.Cmp(most) > 0 {
			most = need
		}
	}
	sum.Add(sidecars)
	if most.Cmp(sum) > 0 {
		sum = most
	}
	sum.Add(pod.Spec.Overhead[name])
	return sum
}

func inUnits(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// Room is what a node has for pods.
type Room struct {
	amounts
	pods int64
}

// RoomOf is what a node says that it has.
func RoomOf(allocatable corev1.ResourceList) Room {
	r := Room{pods: allocatable.Pods().Value()}
	for i, name := range counted {
		r.amounts[i] = inUnits(name, allocatable[name])
	}
	return r
}

// TooLarge says why a claim would not fit into a room even if nobody were there.
func (r *Room) TooLarge(c *Claim) *worker.Rejection {
	for i, name := range counted {
		if c.amounts[i] > r.amounts[i] {
			return &worker.Rejection{Reason: corev1.PodReasonInfeasible, Message: fmt.Sprintf(
				"Node didn't have enough capacity: %s, requested: %d, capacity: %d", name, c.amounts[i], r.amounts[i])}
		}
	}
	return nil
}

// Taken is what pods have taken of a node. The zero value is a node without pods.
type Taken struct {
	amounts
	pods  int64
	ports map[hostPort]int
}

// Add takes what a pod claims, and Remove gives it back.
func (t *Taken) Add(c *Claim) { t.change(c, 1) }

// Remove gives back what a pod had claimed.
func (t *Taken) Remove(c *Claim) { t.change(c, -1) }

func (t *Taken) change(c *Claim, by int64) {
	t.pods += by
	for i := range c.amounts {
		t.amounts[i] += by * c.amounts[i]
	}
	for _, p := range c.ports {
		if t.ports == nil {
			t.ports = map[hostPort]int{}
		}
		if t.ports[p] += int(by); t.ports[p] == 0 {
			delete(t.ports, p)
		}
	}
}

// Refuse says why a claim does not fit beside what is taken. Nil means that it does.
func (t *Taken) Refuse(c *Claim, r *Room) *worker.Rejection {
	if t.pods >= r.pods {
		return outOf(corev1.ResourcePods, 1, t.pods, r.pods)
	}
	for i, name := range counted {
		if c.amounts[i] != 0 && t.amounts[i]+c.amounts[i] > r.amounts[i] {
			return outOf(name, c.amounts[i], t.amounts[i], r.amounts[i])
		}
	}
	for _, p := range c.ports {
		if t.ports[p] > 0 {
			return &worker.Rejection{Reason: "NodePorts", Message: "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"}
		}
	}
	return nil
}

func outOf(name corev1.ResourceName, asked, used, has int64) *worker.Rejection {
	return &worker.Rejection{Reason: "OutOf" + string(name), Message: fmt.Sprintf(
		"Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, asked, used, has)}
}
