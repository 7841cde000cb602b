package rules

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

// candidates are the volumes of one class that may be bound to delayed claims. Most are local volumes. These are only
// checked for their own node.
type candidates struct {
	byHost   map[string][]*corev1.PersistentVolume
	anywhere []*corev1.PersistentVolume
}

// candidatesOf returns the volumes that are not bound to other claims.
func (bi *binding) candidatesOf(class string) *candidates {
	list := &candidates{byHost: make(map[string][]*corev1.PersistentVolume)}
	for _, v := range bi.state.Storage.VolumesOf(class) {
		if v.Spec.ClaimRef != nil {
			// A volume that is reserved for one of the claims is used for it on every node: the claim gets no other
			// one.
			promised := slices.ContainsFunc(bi.delayed, func(claim *corev1.PersistentVolumeClaim) bool {
				return volume.IsVolumeBoundToClaim(v, claim)
			})
			if promised {
				list.anywhere = append(list.anywhere, v)
			}
			continue
		}
		if host, ok := hostOf(v); ok {
			list.byHost[host] = append(list.byHost[host], v)
		} else {
			list.anywhere = append(list.anywhere, v)
		}
	}
	return list
}

// near returns the candidates for a node.
func (c *candidates) near(node *cluster.Node) []*corev1.PersistentVolume {
	local := c.byHost[node.Labels[corev1.LabelHostname]]
	if len(c.anywhere) == 0 {
		return local
	}
	return slices.Concat(local, c.anywhere)
}

// hostOf returns the host of a local volume, if its affinity is for that host only.
func hostOf(v *corev1.PersistentVolume) (string, bool) {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return "", false
	}
	terms := v.Spec.NodeAffinity.Required.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchFields) > 0 || len(terms[0].MatchExpressions) != 1 {
		return "", false
	}
	e := terms[0].MatchExpressions[0]
	if e.Key != corev1.LabelHostname || e.Operator != corev1.NodeSelectorOpIn || len(e.Values) != 1 {
		return "", false
	}
	return e.Values[0], true
}
