package scheduler

import (
	"github.com/millrace/millrace/scheduler/internal/cluster"
	"github.com/millrace/millrace/scheduler/placement"
	"github.com/millrace/millrace/scheduler/plugin"
)

// place finds the node for a pod: the one that it waits for if that will do, and otherwise the best one.
func (t *term) place(p *profile, pod *cluster.Pod, x placement.Extra) (*cluster.Node, *placement.Failure) {
	if !t.state.AnyNominated() {
		return p.engine.PlaceWhere(pod.Shape, x)
	}
	x = t.withNominated(p, pod, x)
	if node, ok := t.state.NodeNamed(t.state.Nominated(pod.Key)); ok && node.Present {
		if p.engine.Try(pod.Shape).Verdict(node) == nil && x.Verdict(node) == nil {
			return node, nil
		}
	}
	return p.engine.PlaceWhere(pod.Shape, x)
}

// withNominated asks too that the pod leaves room for those that wait for a node.
func (t *term) withNominated(p *profile, pod *cluster.Pod, x placement.Extra) placement.Extra {
	if t.state.AnyNominated() {
		x.After = both(x.After, func(node *cluster.Node) *plugin.Verdict { return t.leavesRoom(p, pod, node) })
	}
	return x
}

// leavesRoom refuses a node where the pod would take what others wait for that go before it.
func (t *term) leavesRoom(p *profile, pod *cluster.Pod, node *cluster.Node) *plugin.Verdict {
	before := t.state.NominatedBefore(pod, node.Name)
	if len(before) == 0 {
		return nil
	}
	return t.verdictAmong(p, pod, node, before)
}

// verdictAmong asks the filters as if some pods that wait for the node were there.
func (t *term) verdictAmong(p *profile, pod *cluster.Pod, node *cluster.Node, others []*cluster.Pod) *plugin.Verdict {
	overlay := t.state.Overlay()
	defer overlay.Undo()
	for _, other := range others {
		overlay.With(other, node)
	}
	// What these pods want near them may be news: the trial begins only now.
	return p.engine.Try(pod.Shape).Verdict(node)
}

// verdictWithNominated asks the filters twice if pods wait for the node: with them, as they will take room, and without, as
// they may never come.
func (t *term) verdictWithNominated(p *profile, trial *placement.Trial, pod *cluster.Pod, node *cluster.Node) *plugin.Verdict {
	if v := trial.Verdict(node); v != nil {
		return v
	}
	return t.leavesRoom(p, pod, node)
}

// unnominate lets others have what a pod has waited for.
func (t *term) unnominate(pod *cluster.Pod) {
	node, known := t.state.NodeNamed(t.state.Nominated(pod.Key))
	if t.state.Unnominate(pod.Key) && known {
		t.helps(cluster.PodGone, node)
	}
}
