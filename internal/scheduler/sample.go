package scheduler

import (
	"time"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

// sampledEvery is how many attempts one is sampled of, as in kube-scheduler.
const sampledEvery = 10

// sample measures the rules that look at nodes, for some of the pods that got one. Rules are called when nodes change,
// and hardly ever for a single pod, so they are called once more for its node to be measured.
func (c *chooser) sample(p *profile, pod *cluster.Pod, node *cluster.Node) {
	if c.attempts++; c.attempts%sampledEvery != 1 || node == nil || !c.measured {
		return
	}
	begun := time.Now()
	for step := range p.engine.Steps(pod.Shape, node) {
		now := time.Now()
		point := Filter
		if step.Scores {
			point = Score
		}
		p.metrics.RanRule(step.Rule, point, verdictStatus(step.Verdict), now.Sub(begun))
		begun = time.Now()
	}
}
