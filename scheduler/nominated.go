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
		if p.engine.Verdict(pod.Shape, node) == nil && x.Verdict(node) == nil {
			return node, nil
		}
	}
	return p.engine.PlaceWhere(pod.Shape, x)
}

// withNominated asks too that the pod leaves room for those that wait for a node.
func (t *term) withNominated(p *profile, pod *cluster.Pod, x placement.Extra) placement.Extra {
	if t.state.AnyNominated() {
		r := &reserve{term: t, profile: p, pod: pod}
		x.After = both(x.After, r.verdict)
	}
	return x
}

// reserve keeps one pod from taking what others wait for that go before it.
type reserve struct {
	*term
	profile *profile
	pod     *cluster.Pod
	trial   *placement.Trial
}

// verdict refuses a node that does not have room for the pod and for those that wait.
func (r *reserve) verdict(node *cluster.Node) *plugin.Verdict {
	before := r.state.NominatedBefore(r.pod, node.Name)
	if len(before) == 0 {
		return nil
	}
	if r.trial == nil && !r.state.AffineNominated() {
		r.trial = r.profile.engine.Try(r.pod.Shape)
	}
	overlay := r.state.Overlay()
	defer overlay.Undo()
	for _, other := range before {
		overlay.With(other, node)
	}
	if trial := r.trial; trial != nil {
		return trial.Verdict(node)
	}
	// What these pods want near them may be news: the trial begins only now.
	return r.profile.engine.Try(r.pod.Shape).Verdict(node)
}

// spare says whether a node has room for a pod besides that for those that wait for it and go before.
func (t *term) spare(p *profile, pod *cluster.Pod, node *cluster.Node) bool {
	before := t.state.NominatedBefore(pod, node.Name)
	if len(before) == 0 {
		return true
	}
	overlay := t.state.Overlay()
	defer overlay.Undo()
	for _, other := range before {
		overlay.With(other, node)
	}
	return p.engine.Fits(pod.Shape, node)
}

// unnominate lets others have what a pod has waited for.
func (t *term) unnominate(pod *cluster.Pod) {
	node, known := t.state.NodeNamed(t.state.Nominated(pod.Key))
	if t.state.Unnominate(pod.Key) && known {
		t.helps(cluster.PodGone, node)
	}
}
