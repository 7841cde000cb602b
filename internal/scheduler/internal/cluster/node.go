package cluster

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/scheduler/internal/devices"
)

// Node is a node with the pods on it. Only its [State] changes it.
type Node struct {
	Name  string
	Index int // its slot in the state; slots of removed nodes are used again
	// Present is false while only pods refer to the node. Then nothing can be placed on it.
	Present       bool
	Labels        map[string]string
	Zone          int // nodes of one zone have the same number
	Taints        []corev1.Taint
	Unschedulable bool
	Allocatable   demand.Resources
	AllowedPods   int
	Images        []*Image

	Requested demand.Resources
	Scored    demand.Resources
	Pods      int
	Residents []Resident
	Ports     demand.PortSet
	// WithVolumes are the pods with volumes that restrict where they can be placed.
	WithVolumes []*Pod

	placed  []*placement
	devices *devices.State
}

// Claimed reports whether pods get an extended resource by a resource claim on this node: the node has none of it, and
// a device class stands for it.
func (n *Node) Claimed(resource corev1.ResourceName) bool {
	return n.Allocatable.Extended[resource] == 0 && n.devices != nil && n.devices.ClassOf(resource) != nil
}

// ClaimedAmounts returns how many devices stand for an extended resource on this node, and how many of them are
// allocated.
func (n *Node) ClaimedAmounts(resource corev1.ResourceName) (all, allocated int64) {
	if !n.Claimed(resource) {
		return 0, 0
	}
	return n.devices.Totals(n.devices.ClassOf(resource), n.Name, n.Labels)
}

// Below returns the node's pods with a lower priority.
func (n *Node) Below(priority int32) []*Pod {
	var pods []*Pod
	for _, p := range n.placed {
		if p.pod.Priority < priority {
			pods = append(pods, p.pod)
		}
	}
	return pods
}

// Resident is the number of pods of one shape on a node. Terminating pods are counted separately, because some rules
// ignore them.
type Resident struct {
	Shape  *Shape
	Ending bool
	Count  int
}

// Image is a container image of some nodes.
type Image struct {
	Name  string
	Size  int64
	Nodes int // how many nodes have it
}

func (n *Node) add(pod *Pod) {
	n.Pods++
	n.Requested.Add(pod.Shape.Requests)
	n.Scored.Add(pod.Shape.Scored)
	n.Ports.Add(pod.Shape.Ports)
	if len(pod.Volumes) > 0 {
		n.WithVolumes = append(n.WithVolumes, pod)
	}
	if i := n.residents(pod); i >= 0 {
		n.Residents[i].Count++
		return
	}
	n.Residents = append(n.Residents, Resident{Shape: pod.Shape, Ending: pod.Terminating, Count: 1})
}

func (n *Node) remove(pod *Pod) {
	n.Pods--
	n.Requested.Subtract(pod.Shape.Requests)
	n.Scored.Subtract(pod.Shape.Scored)
	n.Ports.Remove(pod.Shape.Ports)
	if len(pod.Volumes) > 0 {
		n.WithVolumes = slices.DeleteFunc(n.WithVolumes, func(p *Pod) bool { return p.Key == pod.Key && p.UID == pod.UID })
	}
	i := n.residents(pod)
	if n.Residents[i].Count--; n.Residents[i].Count == 0 {
		n.Residents = slices.Delete(n.Residents, i, i+1)
	}
}

func (n *Node) residents(pod *Pod) int {
	return slices.IndexFunc(n.Residents, func(r Resident) bool {
		return r.Shape == pod.Shape && r.Ending == pod.Terminating
	})
}

// Change says what has changed in the cluster, as far as a pod may be placed because of it.
type Change uint32

// The changes.
const (
	NodeAdded        Change = 1 << iota
	NodeRoom                // allocatable amounts
	NodeLabels              // labels
	NodeTaints              // taints, or whether the node is unschedulable
	PodPlaced               // a pod was placed on a node
	PodGone                 // a pod has left a node, or needs less
	PodChanged              // labels of a placed pod
	NamespaceChanged        // labels of a namespace
	NodeGone                // a node was removed
	ClaimChanged            // a persistent volume claim
	VolumeChanged           // a persistent volume
	ClassChanged            // a storage class
	DeviceChanged           // resource claims, device classes, and resource slices
	DriverChanged           // CSINodes, CSIDrivers, storage capacities and volume attachments
	ExtendedChanged         // which device class stands for an extended resource
)

// describe copies the node's object and returns what that changes.
func (n *Node) describe(object *corev1.Node) Change {
	var change Change
	allocatable := demand.ResourcesOf(object.Status.Allocatable)
	pods := object.Status.Allocatable[corev1.ResourcePods]
	if !n.Present {
		change |= NodeAdded
	}
	if !n.Allocatable.Equal(allocatable) || n.AllowedPods != int(pods.Value()) {
		change |= NodeRoom
	}
	if !maps.Equal(n.Labels, object.Labels) {
		change |= NodeLabels
	}
	if n.Unschedulable != object.Spec.Unschedulable || !slices.EqualFunc(n.Taints, object.Spec.Taints, sameTaint) {
		change |= NodeTaints
	}
	if change == 0 {
		return 0
	}
	n.Present = true
	n.Allocatable, n.AllowedPods = allocatable, int(pods.Value())
	n.Labels = object.Labels
	n.Taints, n.Unschedulable = object.Spec.Taints, object.Spec.Unschedulable
	return change
}

func sameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

// clear removes the node's object; its pods stay.
func (n *Node) clear() {
	n.Present = false
	n.Labels, n.Zone, n.Taints, n.Unschedulable = nil, 0, nil, false
	n.Allocatable, n.AllowedPods = demand.Resources{}, 0
}
