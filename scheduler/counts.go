package scheduler

import "github.com/millrace/millrace/scheduler/internal/backlog"

// counts counts what the scheduler knows.
func (t *term) counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := Counts{Nodes: t.state.Nodes(), Pods: t.state.PlacedPods(), Assumed: t.state.Assumed(), Unschedulable: map[Refuser]int{}}
	t.backlog.Unschedulable(func(g backlog.Group, pods int) {
		for _, rule := range t.profiles[g.SchedulerName].engine.RulesIn(g.Refused) {
			c.Unschedulable[Refuser{g.SchedulerName, rule}] += pods
		}
	})
	return c
}
