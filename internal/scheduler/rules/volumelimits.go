package rules

import (
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/volume"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// VolumeLimits keeps pods off nodes to which a driver can attach no more volumes.
type VolumeLimits struct{}

var tooManyVolumes = plugin.Verdict{
	Plugin:  VolumeLimits{}.Name(),
	Reasons: []string{"node(s) exceed max volume count"},
}

// Name is NodeVolumeLimits.
func (VolumeLimits) Name() string { return "NodeVolumeLimits" }

// RequeuesOn lists changes of drivers, removed pods, and claims.
func (VolumeLimits) RequeuesOn() cluster.Change {
	return cluster.DriverChanged | cluster.PodGone | cluster.ClaimChanged
}

// Open lists the pod's volumes with CSI drivers.
func (VolumeLimits) Open(pod *cluster.Pod, state *cluster.State) (plugin.Case, error) {
	c := &limits{state: state, wanted: make(map[string]string)}
	for i := range pod.Volumes {
		v := &pod.Volumes[i]
		if v.Claim == "" {
			continue
		}
		key := cluster.Key{Namespace: pod.Key.Namespace, Name: v.Claim}
		claim, ok := state.Storage.Claim(key)
		if !ok {
			continue // other rules refuse the pod
		}
		if driver, handle := driverOf(claim, state); driver != "" && handle != "" {
			c.wanted[driver+"/"+handle] = driver
		}
	}
	if len(c.wanted) == 0 {
		return nil, nil
	}
	return c, nil
}

// driverOf returns a claim's driver and the driver's handle of the volume. A volume that will be provisioned counts
// too.
func driverOf(claim *corev1.PersistentVolumeClaim, state *cluster.State) (driver, handle string) {
	if v, ok := state.Storage.Volume(claim.Spec.VolumeName); ok {
		if v.Spec.CSI == nil {
			return "", ""
		}
		return v.Spec.CSI.Driver, v.Spec.CSI.VolumeHandle
	}
	class, ok := state.Storage.Class(volume.GetPersistentVolumeClaimClass(claim))
	if !ok {
		return "", ""
	}
	return class.Provisioner, "claim " + claim.Namespace + "/" + claim.Name
}

// limits is the rule's case for one pod.
type limits struct {
	state  *cluster.State
	wanted map[string]string // the driver of each volume
}

// Filter refuses nodes without a driver that is required there, and nodes that cannot attach all of the pod's volumes.
func (l *limits) Filter(node *cluster.Node) *plugin.Verdict {
	onNode, _ := l.state.Storage.Node(node.Name)
	for _, driver := range l.wanted {
		if l.missing(driver, onNode) {
			return &plugin.Verdict{
				Plugin: VolumeLimits{}.Name(), Reasons: []string{driver + " CSI driver is not installed on the node"},
			}
		}
	}
	most := limitsOf(onNode)
	if len(most) == 0 {
		return nil
	}
	attached := l.attached(node)
	counts, added := make(map[string]int), make(map[string]int)
	for _, driver := range attached {
		counts[driver]++
	}
	for name, driver := range l.wanted {
		if _, already := attached[name]; !already {
			added[driver]++
		}
	}
	for driver, count := range added {
		if limit, ok := most[driver]; ok && counts[driver]+count > int(limit) {
			return &tooManyVolumes
		}
	}
	return nil
}

// attached returns the volumes that the node's pods use, and others that are still attached to it, with their drivers.
func (l *limits) attached(node *cluster.Node) map[string]string {
	volumes := make(map[string]string)
	for _, pod := range node.WithVolumes {
		for i := range pod.Volumes {
			claim, ok := l.state.Storage.Claim(cluster.Key{Namespace: pod.Key.Namespace, Name: pod.Volumes[i].Claim})
			if !ok {
				continue
			}
			if driver, handle := driverOf(claim, l.state); driver != "" && handle != "" {
				volumes[driver+"/"+handle] = driver
			}
		}
	}
	for a := range l.state.Storage.Attachments(node.Name) {
		name := a.Spec.Source.PersistentVolumeName
		if name == nil {
			continue
		}
		if v, ok := l.state.Storage.Volume(*name); ok && v.Spec.CSI != nil {
			volumes[v.Spec.CSI.Driver+"/"+v.Spec.CSI.VolumeHandle] = v.Spec.CSI.Driver
		}
	}
	return volumes
}

// missing reports whether a node lacks a driver that pods require on their node.
func (l *limits) missing(name string, onNode *storagev1.CSINode) bool {
	driver, ok := l.state.Storage.Driver(name)
	if !ok || driver.Spec.PreventPodSchedulingIfMissing == nil || !*driver.Spec.PreventPodSchedulingIfMissing {
		return false
	}
	if onNode == nil {
		return true
	}
	for i := range onNode.Spec.Drivers {
		if onNode.Spec.Drivers[i].Name == name {
			return false
		}
	}
	return true
}

// limitsOf returns how many volumes each driver can attach to a node.
func limitsOf(onNode *storagev1.CSINode) map[string]int32 {
	if onNode == nil {
		return nil
	}
	var most map[string]int32
	for i := range onNode.Spec.Drivers {
		d := &onNode.Spec.Drivers[i]
		if d.Allocatable == nil || d.Allocatable.Count == nil {
			continue
		}
		if most == nil {
			most = make(map[string]int32)
		}
		most[d.Name] = *d.Allocatable.Count
	}
	return most
}
