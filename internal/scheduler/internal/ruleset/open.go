package ruleset

import (
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Opened is a pod rule's case for one pod.
type Opened struct {
	plugin.Case
	Rule   string
	Weight int64
	Late   bool
}

// Open opens all pod rules for a pod. On an error it returns the rule that failed.
func (s *Set) Open(pod *cluster.Pod, state *cluster.State) (opened []Opened, rule string, err error) {
	for _, r := range s.Pods {
		c, err := r.Plugin.Open(pod, state)
		if err != nil {
			return nil, r.Plugin.Name(), err
		}
		if c == nil {
			continue
		}
		_, late := r.Plugin.(plugin.Late)
		opened = append(opened, Opened{Case: c, Rule: r.Plugin.Name(), Weight: r.Weight, Late: late})
	}
	return opened, "", nil
}
