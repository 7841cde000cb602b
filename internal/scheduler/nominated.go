package scheduler

import (
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/placement"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// place finds the node for a pod: its nominated node if that is suitable, otherwise the best one.
func (c *chooser) place(p *profile, pod *cluster.Pod, x placement.Extra) (*cluster.Node, *placement.Failure) {
	if !c.state.AnyNominated() {
		return p.engine.PlaceWhere(pod.Shape, x)
	}
	x = c.withNominated(p, pod, x)
	if node, ok := c.state.NodeNamed(c.state.Nominated(pod.Key)); ok && node.Present {
		if p.engine.Verdict(pod.Shape, node) == nil && x.Verdict(node) == nil {
			return node, nil
		}
	}
	return p.engine.PlaceWhere(pod.Shape, x)
}

// withNominated also requires that the pod leaves capacity for pods that are nominated to the node.
func (c *chooser) withNominated(p *profile, pod *cluster.Pod, x placement.Extra) placement.Extra {
	if c.state.AnyNominated() {
		a := &nominatedAdmission{state: &c.state, profile: p, pod: pod, kept: c.besideNominatedOf(p, pod)}
		x.After = both(x.After, a.verdict)
	}
	return x
}

// nominatedAdmission refuses nodes whose capacity is needed by nominated pods with the same or a higher priority.
type nominatedAdmission struct {
	state   *cluster.State
	profile *profile
	pod     *cluster.Pod
	trial   *placement.Trial
	kept    *besideNominated // nil if nothing can be kept for the pod
}

// besideNominated are verdicts of nominatedAdmission that pods share, by the indexes of nodes. While many pods wait for
// the capacity that their victims leave, each other pod finds all these nodes free, and must not have them.
type besideNominated struct {
	place    uint64 // the position in the state's log of changes
	verdicts []*plugin.Verdict
}

// admits is the verdict of a node that was checked and admits the pod; nil is one that was not checked.
var admits = &plugin.Verdict{}

// besideNominatedOf returns the updated verdicts for pods like this one.
func (c *chooser) besideNominatedOf(p *profile, pod *cluster.Pod) *besideNominated {
	if c.state.AffineNominated() || p.engine.Related(pod.Shape) {
		return nil
	}
	kept := keptFor(c.besideNominated, cacheKey{p, pod.Shape.Demand, pod.Priority})
	changed, ok := c.state.Since(kept.place)
	if !ok {
		clear(kept.verdicts)
		changed = nil
	}
	kept.place = c.state.Head()
	for _, i := range changed {
		if int(i) < len(kept.verdicts) {
			kept.verdicts[i] = nil
		}
	}
	for len(kept.verdicts) < c.state.Slots() {
		kept.verdicts = append(kept.verdicts, nil)
	}
	return kept
}

// verdict refuses a node without capacity for both the pod and the nominated pods.
func (a *nominatedAdmission) verdict(node *cluster.Node) *plugin.Verdict {
	if a.kept == nil || a.state.Nominated(a.pod.Key) == node.Name {
		return a.check(node)
	}
	switch v := a.kept.verdicts[node.Index]; v {
	case admits:
		return nil
	case nil:
	default:
		return v
	}
	v := a.check(node)
	switch {
	case v == nil:
		a.kept.verdicts[node.Index] = admits
	case !v.Broken: // an error may not come again
		a.kept.verdicts[node.Index] = v
	}
	return v
}

func (a *nominatedAdmission) check(node *cluster.Node) *plugin.Verdict {
	before := a.state.NominatedBefore(a.pod, node.Name)
	if len(before) == 0 {
		return nil
	}
	if a.trial == nil && !a.state.AffineNominated() {
		a.trial = a.profile.engine.Try(a.pod.Shape)
	}
	overlay := a.state.Overlay()
	defer overlay.Undo()
	for _, other := range before {
		overlay.With(other, node)
	}
	if trial := a.trial; trial != nil {
		return trial.Verdict(node)
	}
	// The nominated pods' affinity matters too, so the trial begins only now.
	return a.profile.engine.Try(a.pod.Shape).Verdict(node)
}
