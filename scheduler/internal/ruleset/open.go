package ruleset

import (
	"github.com/millrace/millrace/scheduler/internal/cluster"
	"github.com/millrace/millrace/scheduler/plugin"
)

// Opened is a rule for single pods at work on one.
type Opened struct {
	plugin.Case
	Rule   string
	Weight int64
	Late   bool
}

// Open asks all rules for single pods what they have to say about one. On an error it says which rule's it is.
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
