package scheduler

import (
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/placement"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// place finds the node for a pod: its nominated node if that is suitable, otherwise the best one.
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

// withNominated also requires that the pod leaves capacity for pods that are nominated to the node.
func (t *term) withNominated(p *profile, pod *cluster.Pod, x placement.Extra) placement.Extra {
	if t.state.AnyNominated() {
		r := &nominatedAdmission{term: t, profile: p, pod: pod, kept: t.besideNominatedOf(p, pod)}
		x.After = both(x.After, r.verdict)
	}
	return x
}

// nominatedAdmission refuses nodes whose capacity is needed by nominated pods with the same or a higher priority.
type nominatedAdmission struct {
	*term
	profile *profile
	pod     *cluster.Pod
	trial   *placement.Trial
	kept    *besideNominated // nil if nothing can be kept for the pod
}

// besideNominated are verdicts of nominatedAdmission that pods share, by the indexes of nodes. While many pods wait for the capacity that their
// victims leave, each other pod finds all these nodes free, and must not have them.
type besideNominated struct {
	place    uint64 // the position in the state's log of changes
	verdicts []*plugin.Verdict
}

// admits is the verdict of a node that was checked and admits the pod; nil is one that was not checked.
var admits = &plugin.Verdict{}

// besideNominatedOf returns the updated verdicts for pods like this one.
func (t *term) besideNominatedOf(p *profile, pod *cluster.Pod) *besideNominated {
	if t.state.AffineNominated() || p.engine.Related(pod.Shape) {
		return nil
	}
	kept := keptFor(t.besideNominated, cacheKey{p, pod.Shape.Demand, pod.Priority})
	changed, ok := t.state.Since(kept.place)
	if !ok {
		clear(kept.verdicts)
		changed = nil
	}
	kept.place = t.state.Head()
	for _, i := range changed {
		if int(i) < len(kept.verdicts) {
			kept.verdicts[i] = nil
		}
	}
	for len(kept.verdicts) < t.state.Slots() {
		kept.verdicts = append(kept.verdicts, nil)
	}
	return kept
}

// verdict refuses a node without capacity for both the pod and the nominated pods.
func (r *nominatedAdmission) verdict(node *cluster.Node) *plugin.Verdict {
	if r.kept == nil || r.state.Nominated(r.pod.Key) == node.Name {
		return r.check(node)
	}
	switch v := r.kept.verdicts[node.Index]; v {
	case admits:
		return nil
	case nil:
	default:
		return v
	}
	v := r.check(node)
	switch {
	case v == nil:
		r.kept.verdicts[node.Index] = admits
	case !v.Broken: // an error may not come again
		r.kept.verdicts[node.Index] = v
	}
	return v
}

func (r *nominatedAdmission) check(node *cluster.Node) *plugin.Verdict {
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
	// The nominated pods' affinity matters too, so the trial begins only now.
	return r.profile.engine.Try(r.pod.Shape).Verdict(node)
}

// hasRoomBesideNominated reports whether a node has capacity for a pod besides what its nominated pods with the same or
// a higher priority need.
func (t *term) hasRoomBesideNominated(p *profile, pod *cluster.Pod, node *cluster.Node) bool {
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

// unnominate removes a pod's nomination, so that other pods can use the capacity.
func (t *term) unnominate(pod *cluster.Pod) {
	node, known := t.state.NodeNamed(t.state.Nominated(pod.Key))
	if t.state.Unnominate(pod.Key) && known {
		t.wakeFor(cluster.PodGone, node)
	}
}
