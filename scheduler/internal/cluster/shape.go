package cluster

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Shape is all about a pod that matters to where it, and others, can go. Pods
// with the same shape are interchangeable to filters and scores.
type Shape struct {
	*Demand
	Namespace string
	Labels    labels.Set
	// Owner is the workload whose selector the default spreading follows, if it is of a kind that has one.
	Owner Owner

	Affinity              []Term
	AntiAffinity          []Term
	PreferredAffinity     []WeightedTerm
	PreferredAntiAffinity []WeightedTerm
	Spread                []SpreadConstraint
}

// HasPodAffinity says whether the pod cares which pods run near it, so that pods
// that do not care about it must ask it nevertheless.
func (s *Shape) HasPodAffinity() bool {
	return len(s.Affinity) > 0 || len(s.AntiAffinity) > 0 ||
		len(s.PreferredAffinity) > 0 || len(s.PreferredAntiAffinity) > 0
}

// Owner names a controller in the pod's namespace.
type Owner struct{ Kind, Name string }

// Term selects pods around which a pod wants, or does not want, to be.
type Term struct {
	TopologyKey string
	Selector    labels.Selector
	// Namespaces that are looked at by name; those that NamespacesBy selects are looked at too.
	Namespaces   []string
	NamespacesBy labels.Selector // nil: none
}

// WeightedTerm is a preference.
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

// SpreadConstraints reads the constraints of a pod with these labels.
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

// withLabelKeys reads a label selector and adds what the pod's own values of
// some labels demand. A missing or unreadable selector selects nothing.
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

// ownerOf returns the controller if it is of a kind whose selector spreads its pods by default.
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
