package scheduler

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// A Rule decides about nodes for pods. It needs a Name, Read, and at least one of Filter and Score.
type Rule struct {
	// Name appears in metrics, for example "Racks".
	Name string
	// Read returns what the rule needs to know of a pod. Empty means that the rule does not apply to the pod.
	Read func(pod *corev1.Pod) string
	// Filter returns why a pod, of which Read has returned what is given, may not go to a node; nil if it may.
	Filter func(pod string, node Node) *Refusal
	// Score rates a node for a pod, from 0 to 100 for the best. Values outside count as the nearest.
	Score func(pod string, node Node) int64
	// Weight is how much the score counts beside others. 0 means 1; Kubernetes' own have 1 to 3.
	Weight int64
}

// A Refusal says why a node is not suitable.
type Refusal struct {
	// Reason is what users read in events and conditions, with the number of nodes before it: "2 node(s) were in
	// another rack".
	Reason string
	// Final means that the node would be refused even if it had no pods, so that preempting them does not help.
	Final bool
}

// Node is a node, with the pods on it. It is valid during the call that gets it.
type Node struct{ node *plugin.Node }

// Name returns the name of the node.
func (n Node) Name() string { return n.node.Name }

// Labels returns the labels of the node. They must not be modified.
func (n Node) Labels() map[string]string { return n.node.Labels }

// Taints returns a copy of the taints of the node.
func (n Node) Taints() []corev1.Taint { return slices.Clone(n.node.Taints) }

// Pods returns the number of pods on the node, those included whose binding is in progress.
func (n Node) Pods() int { return n.node.Pods }

// Allocatable returns how much of a resource pods may use, in its usual unit (cpu: thousandths).
func (n Node) Allocatable(resource corev1.ResourceName) int64 {
	amount, _ := n.node.Allocatable.Get(resource)
	return amount
}

// Requested returns how much of a resource the pods on the node request, in its usual unit (cpu: thousandths).
func (n Node) Requested(resource corev1.ResourceName) int64 {
	amount, _ := n.node.Requested.Get(resource)
	return amount
}

// addTo adds a rule to a set.
func (r Rule) addTo(set *plugin.Set) {
	base := adapter{r}
	if r.Filter != nil {
		set.Filters = append(set.Filters, &filter{adapter: base, verdicts: make(map[Refusal]*plugin.Verdict)})
	}
	if r.Score != nil {
		weighted := plugin.Weighted[plugin.Score]{Plugin: score{base}, Weight: cmp.Or(r.Weight, 1)}
		set.Scores = append(set.Scores, weighted)
	}
}

// adapter has what filters and scores share.
type adapter struct{ rule Rule }

func (a adapter) Name() string                      { return a.rule.Name }
func (a adapter) ReadPod(pod *corev1.Pod) string    { return a.rule.Read(pod) }
func (a adapter) Skip(demand *plugin.Demand) bool   { return a.read(demand) == "" }
func (a adapter) read(demand *plugin.Demand) string { return demand.Read(a.rule.Name) }

// filter keeps the verdicts, because one is kept for each node.
type filter struct {
	adapter
	verdicts map[Refusal]*plugin.Verdict
}

// mostVerdicts bounds the verdicts that are kept, for rules whose reasons differ for each node.
const mostVerdicts = 1000

func (f *filter) Filter(demand *plugin.Demand, node *plugin.Node) *plugin.Verdict {
	refusal := f.rule.Filter(f.read(demand), Node{node})
	if refusal == nil {
		return nil
	}
	if v, known := f.verdicts[*refusal]; known {
		return v
	}
	if len(f.verdicts) >= mostVerdicts {
		clear(f.verdicts)
	}
	v := &plugin.Verdict{Plugin: f.rule.Name, Reasons: []string{refusal.Reason}, Lasting: refusal.Final}
	f.verdicts[*refusal] = v
	return v
}

type score struct{ adapter }

func (s score) Score(demand *plugin.Demand, node *plugin.Node) int64 {
	return min(max(s.rule.Score(s.read(demand), Node{node}), 0), plugin.MaxScore)
}
