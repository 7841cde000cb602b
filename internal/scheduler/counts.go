package scheduler

import "github.com/millrace/millrace/internal/scheduler/internal/backlog"

// counts counts what the scheduler knows.
func (t *term) counts() Counts {
	t.lock()
	defer t.mu.Unlock()
	c := Counts{
		Nodes: t.state.Nodes(), Pods: t.state.PlacedPods(), Assumed: t.state.Assumed(), InFlight: t.backlog.Sizes().InFlight,
		Unschedulable: map[Refuser]int{}, Incoming: map[Incoming]uint64{}, Evaluations: map[Evaluation]uint64{},
	}
	t.backlog.Incoming(func(queue string, because backlog.Event, pods uint64) {
		c.Incoming[Incoming{queue, because.String()}] += pods
	})
	for name, p := range t.profiles {
		for call, n := range p.engine.Calls() {
			point := Filter
			if call.Scores {
				point = Score
			}
			c.Evaluations[Evaluation{Refuser{name, call.Rule}, point}] += n
		}
	}
	t.backlog.Unschedulable(func(g backlog.Group, pods int) {
		for _, rule := range t.profiles[g.SchedulerName].engine.RulesIn(g.Refused) {
			c.Unschedulable[Refuser{g.SchedulerName, rule}] += pods
		}
	})
	return c
}
