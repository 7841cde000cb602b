package gate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/kubelet/worker"
)

// Claim is the resources and host ports of a pod.
type Claim struct {
	requests demand.Resources
	ports    []demand.Port
}

// ClaimOf returns the claim of a pod's spec. What its containers get by a resource claim is not the node's.
func ClaimOf(pod *corev1.Pod) Claim {
	spec := &pod.Spec
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		spec = withoutClaimed(spec, s.RequestMappings)
	}
	return Claim{requests: demand.SpecRequests(spec), ports: demand.HostPorts(spec)}
}

// withoutClaimed returns a pod's spec without the requests for resources that containers get by a resource claim.
func withoutClaimed(spec *corev1.PodSpec, claimed []corev1.ContainerExtendedResourceRequest) *corev1.PodSpec {
	spec = spec.DeepCopy()
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for _, m := range claimed {
				if m.ContainerName == containers[i].Name {
					delete(containers[i].Resources.Requests, corev1.ResourceName(m.ResourceName))
				}
			}
		}
	}
	return spec
}

// Room is the allocatable resources of a node.
type Room struct {
	amounts demand.Resources
	pods    int64
}

// RoomOf returns the room of a node with these allocatable resources.
func RoomOf(allocatable corev1.ResourceList) Room {
	return Room{amounts: demand.ResourcesOf(allocatable), pods: allocatable.Pods().Value()}
}

// TooLarge returns why a claim would not fit even on an empty node, or nil.
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

// counted returns the resources to compare. An extended resource that the node does not have at all is skipped: the
// cluster provides it, not the node.
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

// Taken is the resources and host ports that a node's pods have. The zero value is a node without pods.
type Taken struct {
	amounts demand.Resources
	pods    int64
	ports   demand.PortSet
}

// Add adds a pod's claim.
func (t *Taken) Add(c *Claim) {
	t.pods++
	t.amounts.Add(c.requests)
	t.ports.Add(c.ports)
}

// Remove subtracts a pod's claim.
func (t *Taken) Remove(c *Claim) {
	t.pods--
	t.amounts.Subtract(c.requests)
	t.ports.Remove(c.ports)
}

// Refuse returns why a claim does not fit beside what is taken, or nil.
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
