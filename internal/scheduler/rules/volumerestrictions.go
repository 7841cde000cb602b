package rules

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// VolumeRestrictions refuses nodes and volumes that pods may not share: disks without a claim that only one pod of a
// node may write, and claims with the access mode ReadWriteOncePod.
type VolumeRestrictions struct{}

var (
	diskInUse = plugin.Verdict{
		Plugin:  VolumeRestrictions{}.Name(),
		Reasons: []string{"node(s) had no available disk"},
	}
	claimInUse = plugin.Verdict{
		Plugin:  VolumeRestrictions{}.Name(),
		Reasons: []string{"node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"},
	}
)

// Name is VolumeRestrictions.
func (VolumeRestrictions) Name() string { return "VolumeRestrictions" }

// RequeuesOn lists new nodes, removed pods, and claims.
func (VolumeRestrictions) RequeuesOn() cluster.Change {
	return cluster.NodeAdded | cluster.PodGone | cluster.ClaimChanged
}

// Open reads the pod's claims and disks.
func (VolumeRestrictions) Open(pod *cluster.Pod, state *cluster.State) (plugin.Case, error) {
	c := restrictions{state: state}
	for i := range pod.Volumes {
		v := &pod.Volumes[i]
		switch {
		case v.Disk != nil:
			c.disks = append(c.disks, v.Disk)
		case v.Claim != "" && !v.Ephemeral:
			key := cluster.Key{Namespace: pod.Key.Namespace, Name: v.Claim}
			claim, ok := state.Storage.Claim(key)
			if !ok {
				return nil, claimNotFound(v.Claim)
			}
			if slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
				c.claims = append(c.claims, key)
			}
		}
	}
	if len(c.disks) == 0 && len(c.claims) == 0 {
		return nil, nil
	}
	return &c, nil
}

func claimNotFound(name string) error {
	return plugin.Refusal(fmt.Sprintf("persistentvolumeclaim %q not found", name))
}

// restrictions is the rule's case for one pod.
type restrictions struct {
	state  *cluster.State
	claims []cluster.Key // that only one pod may use
	disks  []*corev1.VolumeSource
}

// Filter refuses nodes with pods that use one of the disks, and all nodes if another pod uses one of the claims.
func (c *restrictions) Filter(node *cluster.Node) *plugin.Verdict {
	for _, disk := range c.disks {
		for _, other := range node.WithVolumes {
			for i := range other.Volumes {
				if d := other.Volumes[i].Disk; d != nil && disksConflict(disk, d) {
					return &diskInUse
				}
			}
		}
	}
	for _, claim := range c.claims {
		if c.state.ClaimUsers(claim) > 0 {
			return &claimInUse
		}
	}
	return nil
}

// disksConflict reports whether two volumes are the same disk, and one of the pods writes to it.
func disksConflict(a, b *corev1.VolumeSource) bool {
	switch {
	case a.GCEPersistentDisk != nil && b.GCEPersistentDisk != nil:
		a, b := a.GCEPersistentDisk, b.GCEPersistentDisk
		return a.PDName == b.PDName && !(a.ReadOnly && b.ReadOnly)
	case a.AWSElasticBlockStore != nil && b.AWSElasticBlockStore != nil:
		return a.AWSElasticBlockStore.VolumeID == b.AWSElasticBlockStore.VolumeID
	case a.ISCSI != nil && b.ISCSI != nil:
		return a.ISCSI.IQN == b.ISCSI.IQN && !(a.ISCSI.ReadOnly && b.ISCSI.ReadOnly)
	case a.RBD != nil && b.RBD != nil:
		a, b := a.RBD, b.RBD
		shared := slices.ContainsFunc(a.CephMonitors, func(m string) bool { return slices.Contains(b.CephMonitors, m) })
		return shared && a.RBDPool == b.RBDPool && a.RBDImage == b.RBDImage && !(a.ReadOnly && b.ReadOnly)
	}
	return false
}
