package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (x *examiner) gates(p fieldPath) {
	list := p.child("readinessGates")
	for i, g := range x.spec.ReadinessGates {
		if messages := qualifiedName(string(g.ConditionType)); messages != nil {
			item := list.item(i)
			x.invalidAll(item.child("conditionType"), string(g.ConditionType), messages)
		}
	}
	if len(x.spec.SchedulingGates) == 0 {
		return
	}
	var names seen[string]
	list = p.child("schedulingGates")
	for i, g := range x.spec.SchedulingGates {
		item := list.item(i)
		x.invalidAll(item, g.Name, qualifiedName(g.Name))
		if !names.add(g.Name) {
			x.duplicate(item, g.Name)
		}
	}
}

type spreadRule struct {
	key  string
	when corev1.UnsatisfiableConstraintAction
}

func (r spreadRule) is(t corev1.TopologySpreadConstraint) bool {
	return r == spreadRule{t.TopologyKey, t.WhenUnsatisfiable}
}

func (x *examiner) spread(p fieldPath) {
	if len(x.spec.TopologySpreadConstraints) == 0 {
		return
	}
	list := p.child("topologySpreadConstraints")
	for i := range x.spec.TopologySpreadConstraints {
		t := &x.spec.TopologySpreadConstraints[i]
		item := list.item(i)
		if t.MaxSkew <= 0 {
			x.invalid(item.child("maxSkew"), t.MaxSkew, "must be greater than zero")
		}
		if t.TopologyKey == "" {
			x.required(item.child("topologyKey"), emptyKey)
		}
		oneOf(&x.findings, item.child("whenUnsatisfiable"), t.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)
		if rule := (spreadRule{t.TopologyKey, t.WhenUnsatisfiable}); slices.ContainsFunc(x.spec.TopologySpreadConstraints[i+1:], rule.is) {
			x.duplicate(item.child("{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%v, %v}", t.TopologyKey, t.WhenUnsatisfiable))
		}
		x.spreadDetails(item, t)
	}
}

func (x *examiner) spreadDetails(p fieldPath, t *corev1.TopologySpreadConstraint) {
	if n := t.MinDomains; n != nil {
		c := p.child("minDomains")
		if *n <= 0 {
			x.invalid(c, *n, "must be greater than zero")
		}
		if t.WhenUnsatisfiable != corev1.DoNotSchedule {
			x.invalid(c, *n, fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s", corev1.DoNotSchedule, t.WhenUnsatisfiable))
		}
	}
	for _, f := range [...]struct {
		name   string
		policy *corev1.NodeInclusionPolicy
	}{{"nodeAffinityPolicy", t.NodeAffinityPolicy}, {"nodeTaintsPolicy", t.NodeTaintsPolicy}} {
		if f.policy != nil {
			oneOf(&x.findings, p.child(f.name), *f.policy, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
		}
	}
	x.spreadKeys(p, t)
	x.labelSelector(p, "labelSelector", t.LabelSelector)
}

func (x *examiner) spreadKeys(p fieldPath, t *corev1.TopologySpreadConstraint) {
	if len(t.MatchLabelKeys) == 0 {
		return
	}
	keys := p.child("matchLabelKeys")
	if t.LabelSelector == nil {
		x.forbidden(keys, "must not be specified when labelSelector is not set")
		return
	}
	for i, key := range t.MatchLabelKeys {
		item := keys.item(i)
		x.invalidAll(item, key, qualifiedName(key))
		if selectsKey(t.LabelSelector, key) && !x.pod {
			x.invalid(item, key, "exists in both matchLabelKeys and labelSelector")
		}
	}
}

func selectsKey(s *metav1.LabelSelector, key string) bool {
	if _, ok := s.MatchLabels[key]; ok {
		return true
	}
	return slices.ContainsFunc(s.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key == key })
}

func (x *examiner) tolerations(p fieldPath) {
	if len(x.spec.Tolerations) == 0 {
		return
	}
	x.tolerationList(p.child("tolerations"), x.spec.Tolerations)
}

func (x *examiner) tolerationList(p fieldPath, list []corev1.Toleration) {
	for i := range list {
		x.toleration(p.item(i), &list[i])
	}
}

func (x *examiner) toleration(p fieldPath, t *corev1.Toleration) {
	operator, effect := p.child("operator"), p.child("effect")
	if t.Key != "" {
		x.invalidAll(p.child("key"), t.Key, qualifiedName(t.Key))
	} else if t.Operator != corev1.TolerationOpExists {
		x.invalid(operator, t.Operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		x.invalid(effect, t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
	}
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		if messages := labelValue(t.Value); messages != nil {
			x.invalid(operator, t.Value, strings.Join(messages, ";"))
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			x.invalid(operator, t.Value, "value must be empty when `operator` is 'Exists'")
		}
	default:
		known := []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}
		if t.Operator == corev1.TolerationOpLt || t.Operator == corev1.TolerationOpGt {
			known = append(known, corev1.TolerationOpLt, corev1.TolerationOpGt) // they are known, but their feature is off
		}
		x.errs = append(x.errs, field.NotSupported(x.path(operator), t.Operator, known))
	}
	if t.Effect != "" {
		oneOf(&x.findings, effect, t.Effect, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
	}
}

func ValidateTolerations(list []corev1.Toleration, path *field.Path) field.ErrorList {
	var x examiner
	p := x.from(path)
	x.tolerationList(p, list)
	return x.errs
}
