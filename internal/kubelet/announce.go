package kubelet

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// announce records an event about the node.
func (k *Kubelet) announce(kind, reason, format string, args ...any) {
	if r := k.recorder(); r != nil {
		node := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: k.options.Name, UID: types.UID(k.options.Name)}
		r.Eventf(node, kind, reason, format, args...)
	}
}

// announceStatus records the event of a new node status.
func (k *Kubelet) announceStatus(reason string) {
	k.announce(corev1.EventTypeNormal, reason, "Node %s status is now: %s", k.options.Name, reason)
}

func (k *Kubelet) announceReady(ready bool) {
	if ready {
		k.announceStatus("NodeReady")
		return
	}
	k.announceStatus("NodeNotReady")
}

// announcePressure records events for the pressure conditions that have begun or ended.
func (k *Kubelet) announcePressure(before, now map[corev1.NodeConditionType]bool) {
	for _, c := range []struct {
		kind        corev1.NodeConditionType
		begun, over string
	}{
		{corev1.NodeMemoryPressure, "NodeHasInsufficientMemory", "NodeHasSufficientMemory"},
		{corev1.NodeDiskPressure, "NodeHasDiskPressure", "NodeHasNoDiskPressure"},
		{corev1.NodePIDPressure, "NodeHasInsufficientPID", "NodeHasSufficientPID"},
	} {
		switch {
		case now[c.kind] && !before[c.kind]:
			k.announceStatus(c.begun)
		case before[c.kind] && !now[c.kind]:
			k.announceStatus(c.over)
		}
	}
}
