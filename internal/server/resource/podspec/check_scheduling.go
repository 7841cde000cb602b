package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	emptyKey      = "can not be empty"
	weightRange   = "must be in the range 1-100"
	noSuchCompare = "not a valid selector operator"
)

func (x *examiner) affinity(p fieldPath) {
	a := x.spec.Affinity
	if a == nil {
		return
	}
	affinity := p.child("affinity")
	if n := a.NodeAffinity; n != nil {
		at := affinity.child("nodeAffinity")
		if n.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			x.nodeSelector(at.child("requiredDuringSchedulingIgnoredDuringExecution"), n.RequiredDuringSchedulingIgnoredDuringExecution)
		}
		list := at.child("preferredDuringSchedulingIgnoredDuringExecution")
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			t := &n.PreferredDuringSchedulingIgnoredDuringExecution[i]
			item := list.item(i)
			x.weight(item, t.Weight)
			x.nodeTerm(item.child("preference"), &t.Preference, false)
		}
	}
	if n := a.PodAffinity; n != nil {
		x.podTerms(affinity.child("podAffinity"), n.RequiredDuringSchedulingIgnoredDuringExecution, n.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if n := a.PodAntiAffinity; n != nil {
		x.podTerms(affinity.child("podAntiAffinity"), n.RequiredDuringSchedulingIgnoredDuringExecution, n.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func (x *examiner) weight(p fieldPath, w int32) {
	if w < 1 || w > 100 {
		x.invalid(p.child("weight"), w, weightRange)
	}
}

// ValidateNodeSelector checks a selector of nodes.
func ValidateNodeSelector(s *corev1.NodeSelector, path *field.Path) field.ErrorList {
	var x examiner
	p := x.from(path)
	x.nodeSelector(p, s)
	return x.errs
}

func (x *examiner) nodeSelector(p fieldPath, s *corev1.NodeSelector) {
	terms := p.child("nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		x.required(terms, "must have at least one node selector term")
	}
	for i := range s.NodeSelectorTerms {
		x.nodeTerm(terms.item(i), &s.NodeSelectorTerms[i], true)
	}
}

// nodeTerm validates label values only if strict is set, which it is for required terms: a preference that no node can
// satisfy does no harm.
func (x *examiner) nodeTerm(p fieldPath, t *corev1.NodeSelectorTerm, strict bool) {
	expressions := p.child("matchExpressions")
	for i := range t.MatchExpressions {
		x.nodeRequirement(expressions.item(i), &t.MatchExpressions[i], strict)
	}
	fields := p.child("matchFields")
	for i := range t.MatchFields {
		x.fieldRequirement(fields.item(i), &t.MatchFields[i])
	}
}

func (x *examiner) nodeRequirement(p fieldPath, r *corev1.NodeSelectorRequirement, strict bool) {
	values := p.child("values")
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			x.required(values, "must be specified when `operator` is 'In' or 'NotIn'")
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			x.forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			x.required(values, "must be specified single value when `operator` is 'Lt' or 'Gt'")
		}
	default:
		x.invalid(p.child("operator"), r.Operator, noSuchCompare)
	}
	x.invalidAll(p.child("key"), r.Key, qualifiedName(r.Key))
	if !strict {
		return
	}
	for i, v := range r.Values {
		x.invalidAll(values.item(i), v, labelValue(v))
	}
}

func (x *examiner) fieldRequirement(p fieldPath, r *corev1.NodeSelectorRequirement) {
	values := p.child("values")
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) != 1 {
			x.required(values, "must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
		}
	default:
		x.invalid(p.child("operator"), r.Operator, noSuchCompare)
	}
	if r.Key != metav1.ObjectNameField {
		x.invalid(p.child("key"), r.Key, "not a valid field selector key")
		return
	}
	for i, v := range r.Values {
		x.invalidAll(values.item(i), v, subdomain(v))
	}
}

func (x *examiner) podTerms(p fieldPath, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	list := p.child("requiredDuringSchedulingIgnoredDuringExecution")
	for i := range required {
		x.podTerm(list.item(i), &required[i])
	}
	list = p.child("preferredDuringSchedulingIgnoredDuringExecution")
	for i := range preferred {
		item := list.item(i)
		x.weight(item, preferred[i].Weight)
		x.podTerm(item.child("podAffinityTerm"), &preferred[i].PodAffinityTerm)
	}
}

func (x *examiner) podTerm(p fieldPath, t *corev1.PodAffinityTerm) {
	x.labelSelector(p, "labelSelector", t.LabelSelector)
	x.labelSelector(p, "namespaceSelector", t.NamespaceSelector)
	for _, n := range t.Namespaces {
		if messages := label(n); messages != nil {
			x.invalidAll(p.child("namespace"), n, messages)
		}
	}
	x.matchKeys(p, t)
	key := p.child("topologyKey")
	if t.TopologyKey == "" {
		x.required(key, emptyKey)
	}
	x.invalidAll(key, t.TopologyKey, qualifiedName(t.TopologyKey))
}

func (x *examiner) labelSelector(p fieldPath, name string, s *metav1.LabelSelector) {
	if s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 {
		return
	}
	x.errs = append(x.errs, metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, x.path(p.child(name)))...)
}

// matchKeys validates the keys whose values are taken from the pod's own labels.
func (x *examiner) matchKeys(p fieldPath, t *corev1.PodAffinityTerm) {
	match, mismatch := p.child("matchLabelKeys"), p.child("mismatchLabelKeys")
	if len(t.MatchLabelKeys) > 0 && t.LabelSelector == nil {
		x.forbidden(match, "must not be specified when labelSelector is not set")
	}
	if len(t.MismatchLabelKeys) > 0 && t.LabelSelector == nil {
		x.forbidden(mismatch, "must not be specified when labelSelector is not set")
	}
	for i, key := range t.MatchLabelKeys {
		item := match.item(i)
		x.invalidAll(item, key, qualifiedName(key))
		if slices.Contains(t.MismatchLabelKeys, key) {
			x.invalid(item, key, "exists in both matchLabelKeys and mismatchLabelKeys")
		}
	}
	for i, key := range t.MismatchLabelKeys {
		x.invalidAll(mismatch.item(i), key, qualifiedName(key))
	}
}

// ValidateTolerations validates tolerations, not only of pods. MatchOwnLabels converts the keys that stand for a pod's
// own labels to requirements of selectors. It is called once, when a pod is created.
