package rules

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// VolumeZone keeps pods in the zones and regions of their volumes' labels.
type VolumeZone struct{}

var otherZone = plugin.Verdict{
	Plugin:  VolumeZone{}.Name(),
	Reasons: []string{"node(s) had no available volume zone"},
	Lasting: true,
}

// zoneLabels are the labels that are checked, with the node label that means the same.
var zoneLabels = map[string]string{
	corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
	corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	corev1.LabelTopologyZone:            corev1.LabelTopologyZone,
	corev1.LabelTopologyRegion:          corev1.LabelTopologyRegion,
}

// Name is VolumeZone.
func (VolumeZone) Name() string { return "VolumeZone" }

// RequeuesOn lists nodes, their labels, classes, claims and volumes.
func (VolumeZone) RequeuesOn() cluster.Change {
	return cluster.NodeAdded | cluster.NodeLabels | cluster.ClassChanged | cluster.ClaimChanged | cluster.VolumeChanged
}

// Open reads the labels of the pod's volumes.
func (VolumeZone) Open(pod *cluster.Pod, state *cluster.State) (plugin.Case, error) {
	var c zoned
	for i := range pod.Volumes {
		v := &pod.Volumes[i]
		if v.Claim == "" || v.Ephemeral {
			continue
		}
		bound, err := volumeOf(cluster.Key{Namespace: pod.Key.Namespace, Name: v.Claim}, state)
		if err != nil {
			return nil, err
		}
		if bound != nil {
			c = append(c, zonesOf(bound)...)
		}
	}
	if len(c) == 0 {
		return nil, nil
	}
	return c, nil
}

// volumeOf returns the volume of a claim; nil if it is bound only when its pod has a node.
func volumeOf(key cluster.Key, state *cluster.State) (*corev1.PersistentVolume, error) {
	claim, ok := state.Storage.Claim(key)
	if !ok {
		return nil, claimNotFound(key.Name)
	}
	if name := claim.Spec.VolumeName; name != "" {
		v, ok := state.Storage.Volume(name)
		if !ok {
			return nil, plugin.Refusal(fmt.Sprintf("persistentvolume %q not found", name))
		}
		return v, nil
	}
	name := volume.GetPersistentVolumeClaimClass(claim)
	if name == "" {
		return nil, plugin.Refusal("PersistentVolumeClaim had no pv name and storageClass name")
	}
	class, ok := state.Storage.Class(name)
	switch {
	case !ok:
		return nil, plugin.Refusal(fmt.Sprintf("storageclass.storage.k8s.io %q not found", name))
	case class.VolumeBindingMode == nil:
		return nil, plugin.Refusal(fmt.Sprintf("VolumeBindingMode not set for StorageClass %q", name))
	case *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer:
		return nil, nil
	}
	return nil, plugin.Refusal("PersistentVolume had no name")
}

// zone is a requirement from one label of a volume.
type zone struct {
	key    string
	values []string
}

// zonesOf returns the requirements of a volume's labels. A value can contain several zones.
func zonesOf(v *corev1.PersistentVolume) []zone {
	var zones []zone
	for key := range zoneLabels {
		if value, ok := v.Labels[key]; ok {
			if values := zoneValues(value); len(values) > 0 {
				zones = append(zones, zone{key, values})
			}
		}
	}
	return zones
}

// zoneValues splits a label's value into zones. A value with an empty part is not a list.
func zoneValues(value string) []string {
	values := strings.Split(value, "__")
	for i := range values {
		values[i] = strings.TrimSpace(values[i])
	}
	if slices.Contains(values, "") {
		return nil
	}
	return values
}

// zoned is the rule's case for one pod: the requirements of its volumes.
type zoned []zone

// Filter refuses nodes in other zones. Nodes without zone and region labels are accepted.
func (zo zoned) Filter(node *cluster.Node) *plugin.Verdict {
	somewhere := false
	for key := range zoneLabels {
		_, ok := node.Labels[key]
		somewhere = somewhere || ok
	}
	if !somewhere {
		return nil
	}
	for _, z := range zo {
		value, ok := node.Labels[z.key]
		if !ok {
			value, ok = node.Labels[zoneLabels[z.key]]
		}
		if !ok || !slices.Contains(z.values, value) {
			return &otherZone
		}
	}
	return nil
}
