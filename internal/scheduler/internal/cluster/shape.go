package cluster

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Shape has all properties of a pod that matter for the placement of itself and of others. Pods with the same shape are
// equal for filters and scores.
type Shape struct {
	*Demand
	Namespace string
	Labels    labels.Set
	// Owner is the workload whose selector is used for default spreading, if it is of a kind with a selector.
	Owner Owner

	Affinity              []Term
	AntiAffinity          []Term
	PreferredAffinity     []WeightedTerm
	PreferredAntiAffinity []WeightedTerm
	Spread                []SpreadConstraint
}

// HasPodAffinity reports whether the pod has pod affinity or anti-affinity. These also matter for the placement of pods
// without any.
func (s *Shape) HasPodAffinity() bool {
	return len(s.Affinity) > 0 || len(s.AntiAffinity) > 0 ||
		len(s.PreferredAffinity) > 0 || len(s.PreferredAntiAffinity) > 0
}

// Owner is a controller in the pod's namespace.
type Owner struct{ Kind, Name string }

// Term is a term of pod affinity or anti-affinity.
type Term struct {
	TopologyKey string
	Selector    labels.Selector
	// Namespaces are the names of namespaces. Those that NamespacesBy selects are added.
	Namespaces   []string
	NamespacesBy labels.Selector // nil: none
}

// WeightedTerm is a preferred term.
type WeightedTerm struct {
	Term
	Weight int64
}

// SpreadConstraint is one topology spread constraint.
type SpreadConstraint struct {
	TopologyKey   string
	MaxSkew       int64
	MinDomains    int64 // at least 1
	Hard          bool
	Selector      labels.Selector
	HonorAffinity bool
	HonorTaints   bool
}

func spreadOf(pod *corev1.Pod) []SpreadConstraint {
	return SpreadConstraints(pod.Spec.TopologySpreadConstraints, pod.Labels)
}

// SpreadConstraints converts the constraints of a pod with these labels.
func SpreadConstraints(list []corev1.TopologySpreadConstraint, own map[string]string) []SpreadConstraint {
	var constraints []SpreadConstraint
	for i := range list {
		c := &list[i]
		constraint := SpreadConstraint{
			TopologyKey:   c.TopologyKey,
			MaxSkew:       int64(c.MaxSkew),
			MinDomains:    1,
			Hard:          c.WhenUnsatisfiable != corev1.ScheduleAnyway,
			Selector:      withLabelKeys(c.LabelSelector, own, c.MatchLabelKeys, nil),
			HonorAffinity: c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor,
			HonorTaints:   c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor,
		}
		if c.MinDomains != nil {
			constraint.MinDomains = int64(*c.MinDomains)
		}
		constraints = append(constraints, constraint)
	}
	return constraints
}

// withLabelKeys converts a label selector and adds requirements for the pod's own values of some labels. A missing or
// invalid selector selects nothing.
func withLabelKeys(selector *metav1.LabelSelector, own map[string]string, match, mismatch []string) labels.Selector {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || selector == nil {
		return labels.Nothing()
	}
	add := func(keys []string, operator selection.Operator) {
		for _, key := range keys {
			value, ok := own[key]
			if !ok {
				continue
			}
			if r, err := labels.NewRequirement(key, operator, []string{value}); err == nil {
				s = s.Add(*r)
			}
		}
	}
	add(match, selection.In)
	add(mismatch, selection.NotIn)
	return s
}

func termOf(pod *corev1.Pod, t *corev1.PodAffinityTerm) Term {
	term := Term{
		TopologyKey: t.TopologyKey,
		Selector:    withLabelKeys(t.LabelSelector, pod.Labels, t.MatchLabelKeys, t.MismatchLabelKeys),
		Namespaces:  t.Namespaces,
	}
	if t.NamespaceSelector != nil {
		if s, err := metav1.LabelSelectorAsSelector(t.NamespaceSelector); err == nil {
			term.NamespacesBy = s
		}
	} else if len(t.Namespaces) == 0 {
		term.Namespaces = []string{pod.Namespace}
	}
	return term
}

func termsOf(pod *corev1.Pod, list []corev1.PodAffinityTerm) []Term {
	var terms []Term
	for i := range list {
		terms = append(terms, termOf(pod, &list[i]))
	}
	return terms
}

func weightedTermsOf(pod *corev1.Pod, list []corev1.WeightedPodAffinityTerm) []WeightedTerm {
	var terms []WeightedTerm
	for i := range list {
		terms = append(terms, WeightedTerm{Term: termOf(pod, &list[i].PodAffinityTerm), Weight: int64(list[i].Weight)})
	}
	return terms
}

// ownerOf returns the controller if it is of a kind whose selector is used for default spreading.
func ownerOf(pod *corev1.Pod) Owner {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return Owner{}
	}
	switch owner.Kind {
	case "ReplicaSet", "StatefulSet", "ReplicationController":
		return Owner{Kind: owner.Kind, Name: owner.Name}
	}
	return Owner{}
}
