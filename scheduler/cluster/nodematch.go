package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// NodeTerm is one alternative of a node affinity. It matches if all of its
// expressions do; an empty one matches nothing.
type NodeTerm struct {
	labels labels.Selector // nil: matches nothing
	names  []nameTest
}

type nameTest struct {
	names []string
	not   bool
}

// Matches says whether a node satisfies the term.
func (t *NodeTerm) Matches(node *Node) bool {
	if t.labels == nil || !t.labels.Matches(labels.Set(node.Labels)) {
		return false
	}
	for _, test := range t.names {
		if slices.Contains(test.names, node.Name) == test.not {
			return false
		}
	}
	return true
}

var selectionOperators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn:           selection.In,
	corev1.NodeSelectorOpNotIn:        selection.NotIn,
	corev1.NodeSelectorOpExists:       selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt:           selection.GreaterThan,
	corev1.NodeSelectorOpLt:           selection.LessThan,
}

func nodeTermOf(term *corev1.NodeSelectorTerm) NodeTerm {
	if len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0 {
		return NodeTerm{}
	}
	selector := labels.NewSelector()
	for _, e := range term.MatchExpressions {
		r, err := labels.NewRequirement(e.Key, selectionOperators[e.Operator], e.Values)
		if err != nil {
			return NodeTerm{} // what nobody can understand matches nothing
		}
		selector = selector.Add(*r)
	}
	t := NodeTerm{labels: selector}
	for _, f := range term.MatchFields {
		in := f.Operator == corev1.NodeSelectorOpIn
		if f.Key != "metadata.name" || !in && f.Operator != corev1.NodeSelectorOpNotIn {
			return NodeTerm{}
		}
		t.names = append(t.names, nameTest{names: f.Values, not: !in})
	}
	return t
}

// NodeMatch is what a pod insists on about a node's labels and name.
type NodeMatch struct {
	selector labels.Selector // of the pod's nodeSelector; nil: none
	affinity bool            // whether there are required terms at all
	terms    []NodeTerm
}

// Matches says whether a node is one that the pod accepts.
func (m *NodeMatch) Matches(node *Node) bool {
	if m.selector != nil && !m.selector.Matches(labels.Set(node.Labels)) {
		return false
	}
	if !m.affinity {
		return true
	}
	for i := range m.terms {
		if m.terms[i].Matches(node) {
			return true
		}
	}
	return false
}

// Names returns the only nodes that can match, if the terms name them.
func (m *NodeMatch) Names() (names []string, named bool) {
	for i := range m.terms {
		test := slices.IndexFunc(m.terms[i].names, func(t nameTest) bool { return !t.not })
		if test < 0 {
			return nil, false
		}
		names = append(names, m.terms[i].names[test].names...)
	}
	slices.Sort(names)
	return slices.Compact(names), len(m.terms) > 0
}

// WeightedNodeTerm is a preference.
type WeightedNodeTerm struct {
	NodeTerm
	Weight int64
}

func nodeMatchOf(spec *corev1.PodSpec) (match NodeMatch, preferred []WeightedNodeTerm) {
	if len(spec.NodeSelector) > 0 {
		match.selector = labels.SelectorFromSet(spec.NodeSelector)
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return match, nil
	}
	affinity := spec.Affinity.NodeAffinity
	if required := affinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		match.affinity = true
		for i := range required.NodeSelectorTerms {
			match.terms = append(match.terms, nodeTermOf(&required.NodeSelectorTerms[i]))
		}
	}
	for i := range affinity.PreferredDuringSchedulingIgnoredDuringExecution {
		p := &affinity.PreferredDuringSchedulingIgnoredDuringExecution[i]
		if p.Weight != 0 {
			preferred = append(preferred, WeightedNodeTerm{NodeTerm: nodeTermOf(&p.Preference), Weight: int64(p.Weight)})
		}
	}
	return match, preferred
}
