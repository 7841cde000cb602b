package scheduler

import (
	"time"

	"github.com/millrace/millrace/internal/scheduler/internal/backlog"
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

// wakeFor wakes the pods that may be placed after a change of node, or of something else if node is nil.
func (k *knowledge) wakeFor(change cluster.Change, node *cluster.Node) {
	k.wakeSomeFor(change, node, nil)
}

// wakeSomeFor is wakeFor for those pods for which some is true; nil means all. Capacity that a removed pod has freed is
// not offered to other pods if it is for the pods that are nominated to that node.
func (k *knowledge) wakeSomeFor(change cluster.Change, node *cluster.Node, some func(*cluster.Pod) bool) {
	if change == 0 {
		return
	}
	k.changeCount++
	if k.backlog.Sizes().Unschedulable == 0 {
		return
	}
	for _, p := range k.profiles {
		p.requeued = p.engine.RequeuedBy(change)
	}
	reserved := change == cluster.PodGone && node != nil && len(k.state.NominatedOn(node.Name)) > 0
	local := false // the rules that refused the group depend on single nodes
	spare := make(map[cacheKey]bool)
	k.backlog.Wake(time.Now(), backlog.EventOf(change), func(g backlog.Group) bool {
		p := k.profiles[g.SchedulerName]
		refused := g.Refused & p.requeued
		local = p.engine.Local(refused)
		return p.engine.Helps(refused, change, g.Shape, node)
	}, func(pod *cluster.Pod) bool {
		if some != nil && !some(pod) {
			return false
		}
		if !reserved || !local || k.state.Nominated(pod.Key) == node.Name {
			return true
		}
		like := cacheKey{k.profiles[pod.SchedulerName], pod.Shape.Demand, pod.Priority}
		is, asked := spare[like]
		if !asked {
			is = k.hasRoomBesideNominated(like.profile, pod, node)
			spare[like] = is
		}
		return is
	})
}

// hasRoomBesideNominated reports whether a node has capacity for a pod besides what its nominated pods with the same or
// a higher priority need.
func (k *knowledge) hasRoomBesideNominated(p *profile, pod *cluster.Pod, node *cluster.Node) bool {
	before := k.state.NominatedBefore(pod, node.Name)
	if len(before) == 0 {
		return true
	}
	overlay := k.state.Overlay()
	defer overlay.Undo()
	for _, other := range before {
		overlay.With(other, node)
	}
	return p.engine.Fits(pod.Shape, node)
}

// unnominate removes a pod's nomination, so that other pods can use the capacity.
func (k *knowledge) unnominate(pod *cluster.Pod) {
	node, known := k.state.NodeNamed(k.state.Nominated(pod.Key))
	if k.state.Unnominate(pod.Key) && known {
		k.wakeFor(cluster.PodGone, node)
	}
}
