package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Failure is why there is no node for a pod.
type Failure struct {
	// Refused has the rules that refused a node.
	Refused ruleset.Bits
	// Nodes is the number of checked nodes, and Lasting the number of those where preemption does not help.
	Nodes, Lasting int

	// Broken reports that a filter had an error, which is the message.
	Broken bool

	message string
}

var noNodes = &Failure{Refused: ruleset.All, message: "no nodes available to schedule pods"}

// Error returns kube-scheduler's message, such as "0/3 nodes are available: 1 node(s) were unschedulable, 2
// Insufficient cpu."
func (f *Failure) Error() string { return f.message }

// RulesIn returns the names of the rules in a set. A set of all rules stands for none: no rule has refused the pod
// then.
func (e *Engine) RulesIn(set ruleset.Bits) []string {
	if set == ruleset.All {
		return nil
	}
	var names []string
	for name, bits := range e.rules {
		if set&bits != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Refused returns the failure of a rule that refuses all nodes at once.
func (e *Engine) Refused(rule, reason string) *Failure {
	nodes := e.state.Nodes()
	return &Failure{
		Refused: e.rules[rule], Nodes: nodes, Lasting: nodes,
		message: fmt.Sprintf("0/%d nodes are available: %s.", nodes, reason),
	}
}

// tally counts reasons.
type tally struct {
	Failure
	reasons map[string]int
}

// count counts a verdict on this number of nodes.
func (t *tally) count(v *plugin.Verdict, nodes int, rules map[string]ruleset.Bits) {
	t.Nodes += nodes
	if v.Lasting {
		t.Lasting += nodes
	}
	bits, ok := rules[v.Plugin]
	if !ok {
		bits = ruleset.All // an unknown rule: any change may help
	}
	t.Refused |= bits
	for _, reason := range v.Reasons {
		t.reasons[reason] += nodes
	}
}

func (t *tally) failure() *Failure {
	lines := make([]string, 0, len(t.reasons))
	for reason, count := range t.reasons {
		lines = append(lines, fmt.Sprintf("%d %s", count, reason))
	}
	slices.Sort(lines)
	t.message = fmt.Sprintf("0/%d nodes are available: %s.", t.Nodes, strings.Join(lines, ", "))
	f := t.Failure
	return &f
}

// broken returns the failure of a filter's error.
func broken(v *plugin.Verdict) *Failure {
	return &Failure{Refused: ruleset.All, Broken: true, message: fmt.Sprintf("running %q filter plugin: %s", v.Plugin, v.Reasons[0])}
}

// Explain combines the reasons why nodes were refused.
func (e *Engine) Explain(verdicts []*plugin.Verdict) *Failure { return e.explain(verdicts) }

func (e *Engine) explain(verdicts []*plugin.Verdict) *Failure {
	// Nodes share verdicts, so these are counted before their texts are read.
	counts := make(map[*plugin.Verdict]int)
	for i := 0; i < len(verdicts); {
		v, first := verdicts[i], i
		for i++; i < len(verdicts) && verdicts[i] == v; i++ {
		}
		if v != &absent {
			counts[v] += i - first
		}
	}
	t := tally{reasons: make(map[string]int)}
	for v, count := range maps.All(counts) {
		if v.Broken {
			return broken(v)
		}
		t.count(v, count, e.rules)
	}
	return t.failure()
}
