package demand

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// NodeMatch is what a pod requires of a node's labels and name: its nodeSelector and its required node affinity. The
// zero value matches every node.
type NodeMatch struct {
	selector labels.Selector // from the pod's nodeSelector; nil if it has none
	affinity bool            // whether there are required terms
	terms    []NodeTerm
}

// NodeMatchOf returns a pod's requirements.
func NodeMatchOf(spec *corev1.PodSpec) NodeMatch {
	var match NodeMatch
	if len(spec.NodeSelector) > 0 {
		match.selector = labels.SelectorFromSet(spec.NodeSelector)
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return match
	}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return match
	}
	match.affinity = true
	for i := range required.NodeSelectorTerms {
		match.terms = append(match.terms, NodeTermOf(&required.NodeSelectorTerms[i]))
	}
	return match
}

// NodeSelectorMatch converts a node selector, such as that of a persistent volume.
func NodeSelectorMatch(selector *corev1.NodeSelector) NodeMatch {
	match := NodeMatch{affinity: true}
	for i := range selector.NodeSelectorTerms {
		match.terms = append(match.terms, NodeTermOf(&selector.NodeSelectorTerms[i]))
	}
	return match
}

// Matches reports whether the pod accepts a node with this name and these labels.
func (m *NodeMatch) Matches(name string, set map[string]string) bool {
	if m.selector != nil && !m.selector.Matches(labels.Set(set)) {
		return false
	}
	if !m.affinity {
		return true
	}
	for i := range m.terms {
		if m.terms[i].Matches(name, set) {
			return true
		}
	}
	return false
}

// Names returns the only nodes that can match. named is false unless every term names nodes.
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

// WeightedNodeTerm is a preference for some nodes.
type WeightedNodeTerm struct {
	NodeTerm
	Weight int64
}

// PreferredNodes returns a pod's preferences, without those of weight zero.
func PreferredNodes(spec *corev1.PodSpec) []WeightedNodeTerm {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return nil
	}
	var preferred []WeightedNodeTerm
	terms := spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	for i := range terms {
		if p := &terms[i]; p.Weight != 0 {
			preferred = append(preferred, WeightedNodeTerm{NodeTerm: NodeTermOf(&p.Preference), Weight: int64(p.Weight)})
		}
	}
	return preferred
}

// NodeTerm is one alternative of a node affinity. It matches if all of its expressions do. An empty term matches
// nothing.
type NodeTerm struct {
	labels labels.Selector // nil: matches nothing
	names  []nameTest
}

type nameTest struct {
	names []string
	not   bool
}

var selectionOperators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn:           selection.In,
	corev1.NodeSelectorOpNotIn:        selection.NotIn,
	corev1.NodeSelectorOpExists:       selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt:           selection.GreaterThan,
	corev1.NodeSelectorOpLt:           selection.LessThan,
}

// NodeTermOf converts a term. A term with an invalid expression matches nothing.
func NodeTermOf(term *corev1.NodeSelectorTerm) NodeTerm {
	if len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0 {
		return NodeTerm{}
	}
	selector := labels.NewSelector()
	for _, e := range term.MatchExpressions {
		r, err := labels.NewRequirement(e.Key, selectionOperators[e.Operator], e.Values)
		if err != nil {
			return NodeTerm{}
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

// Matches reports whether a node with this name and these labels satisfies the term.
func (t *NodeTerm) Matches(name string, set map[string]string) bool {
	if t.labels == nil || !t.labels.Matches(labels.Set(set)) {
		return false
	}
	for _, test := range t.names {
		if slices.Contains(test.names, name) == test.not {
			return false
		}
	}
	return true
}
