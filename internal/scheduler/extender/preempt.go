package extender

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// Victims are pods that would be preempted on a node.
type Victims struct {
	Pods []*corev1.Pod
	// Violations is the number of victims that are protected by disruption budgets.
	Violations int64
}

// Agreed are the victims on a node that an extender has chosen.
type Agreed struct {
	UIDs       []types.UID
	Violations int64
}

// Preempt asks which victims may be preempted, by node. Nodes that are not in the answer are refused.
func (e *Extender) Preempt(ctx context.Context, pod *corev1.Pod, victims map[string]Victims) (map[string]Agreed, error) {
	args := &extenderv1.ExtenderPreemptionArgs{Pod: pod}
	if e.config.NodeCacheCapable {
		args.NodeNameToMetaVictims = make(map[string]*extenderv1.MetaVictims)
	} else {
		args.NodeNameToVictims = make(map[string]*extenderv1.Victims)
	}
	for node, v := range victims {
		if !e.config.NodeCacheCapable {
			args.NodeNameToVictims[node] = &extenderv1.Victims{Pods: v.Pods, NumPDBViolations: v.Violations}
			continue
		}
		meta := &extenderv1.MetaVictims{NumPDBViolations: v.Violations}
		for _, p := range v.Pods {
			meta.Pods = append(meta.Pods, &extenderv1.MetaPod{UID: string(p.UID)})
		}
		args.NodeNameToMetaVictims[node] = meta
	}
	var result extenderv1.ExtenderPreemptionResult
	if err := e.send(ctx, e.config.PreemptVerb, args, &result); err != nil {
		return nil, err
	}
	agreed := make(map[string]Agreed, len(result.NodeNameToMetaVictims))
	for node, v := range result.NodeNameToMetaVictims {
		if v == nil {
			continue
		}
		a := Agreed{Violations: v.NumPDBViolations}
		for _, p := range v.Pods {
			if p != nil {
				a.UIDs = append(a.UIDs, types.UID(p.UID))
			}
		}
		agreed[node] = a
	}
	return agreed, nil
}
