package scheduler

import "github.com/millrace/millrace/internal/scheduler/internal/backlog"

// counts counts what the scheduler knows.
func (k *knowledge) counts() Counts {
	k.lock()
	defer k.mu.Unlock()
	c := Counts{
		Nodes: k.state.Nodes(), Pods: k.state.PlacedPods(), Assumed: k.state.Assumed(), InFlight: k.backlog.Sizes().InFlight,
		Unschedulable: map[Refuser]int{}, Incoming: map[Incoming]uint64{}, Evaluations: map[Evaluation]uint64{},
	}
	k.backlog.Incoming(func(queue string, because backlog.Event, pods uint64) {
		c.Incoming[Incoming{queue, because.String()}] += pods
	})
	for name, p := range k.profiles {
		for call, n := range p.engine.Calls() {
			point := Filter
			if call.Scores {
				point = Score
			}
			c.Evaluations[Evaluation{Refuser{name, call.Rule}, point}] += n
		}
	}
	k.backlog.Unschedulable(func(g backlog.Group, pods int) {
		for _, rule := range k.profiles[g.SchedulerName].engine.RulesIn(g.Refused) {
			c.Unschedulable[Refuser{g.SchedulerName, rule}] += pods
		}
	})
	return c
}
