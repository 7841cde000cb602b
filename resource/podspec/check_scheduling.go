package podspec

import (
	"fmt"
	"slices"
	"strings"

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

func (x *examiner) affinity(p *place) {
	a := x.spec.Affinity
	if a == nil {
		return
	}
	affinity := p.child("affinity")
	if n := a.NodeAffinity; n != nil {
		at := affinity.child("nodeAffinity")
		if n.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			c := at.child("requiredDuringSchedulingIgnoredDuringExecution")
			x.nodeSelector(&c, n.RequiredDuringSchedulingIgnoredDuringExecution)
		}
		list := at.child("preferredDuringSchedulingIgnoredDuringExecution")
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			t := &n.PreferredDuringSchedulingIgnoredDuringExecution[i]
			item := list.item(i)
			x.weight(&item, t.Weight)
			c := item.child("preference")
			x.nodeTerm(&c, &t.Preference)
		}
	}
	if n := a.PodAffinity; n != nil {
		at := affinity.child("podAffinity")
		x.podTerms(&at, n.RequiredDuringSchedulingIgnoredDuringExecution, n.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if n := a.PodAntiAffinity; n != nil {
		at := affinity.child("podAntiAffinity")
		x.podTerms(&at, n.RequiredDuringSchedulingIgnoredDuringExecution, n.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func (x *examiner) weight(p *place, w int32) {
	if w < 1 || w > 100 {
		c := p.child("weight")
		x.invalid(&c, w, weightRange)
	}
}

// ValidateNodeSelector checks a selector of nodes.
func ValidateNodeSelector(s *corev1.NodeSelector, path *field.Path) field.ErrorList {
	var x examiner
	p := x.at(path)
	x.nodeSelector(&p, s)
	return x.errs
}

func (x *examiner) nodeSelector(p *place, s *corev1.NodeSelector) {
	terms := p.child("nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		x.required(&terms, "must have at least one node selector term")
	}
	for i := range s.NodeSelectorTerms {
		item := terms.item(i)
		x.nodeTerm(&item, &s.NodeSelectorTerms[i])
	}
}

func (x *examiner) nodeTerm(p *place, t *corev1.NodeSelectorTerm) {
	expressions := p.child("matchExpressions")
	for i := range t.MatchExpressions {
		item := expressions.item(i)
		x.nodeRequirement(&item, &t.MatchExpressions[i])
	}
	fields := p.child("matchFields")
	for i := range t.MatchFields {
		item := fields.item(i)
		x.fieldRequirement(&item, &t.MatchFields[i])
	}
}

func (x *examiner) nodeRequirement(p *place, r *corev1.NodeSelectorRequirement) {
	values := p.child("values")
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			x.required(&values, "must be specified when `operator` is 'In' or 'NotIn'")
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			x.forbidden(&values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			x.required(&values, "must be specified single value when `operator` is 'Lt' or 'Gt'")
		}
	default:
		c := p.child("operator")
		x.invalid(&c, r.Operator, noSuchCompare)
	}
	key := p.child("key")
	x.invalidAll(&key, r.Key, qualifiedName(r.Key))
	for i, v := range r.Values {
		item := values.item(i)
		x.invalidAll(&item, v, labelValue(v))
	}
}

func (x *examiner) fieldRequirement(p *place, r *corev1.NodeSelectorRequirement) {
	values := p.child("values")
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) != 1 {
			x.required(&values, "must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
		}
	default:
		c := p.child("operator")
		x.invalid(&c, r.Operator, noSuchCompare)
	}
	if r.Key != metav1.ObjectNameField {
		c := p.child("key")
		x.invalid(&c, r.Key, "not a valid field selector key")
		return
	}
	for i, v := range r.Values {
		item := values.item(i)
		x.invalidAll(&item, v, subdomain(v))
	}
}

func (x *examiner) podTerms(p *place, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	list := p.child("requiredDuringSchedulingIgnoredDuringExecution")
	for i := range required {
		item := list.item(i)
		x.podTerm(&item, &required[i])
	}
	list = p.child("preferredDuringSchedulingIgnoredDuringExecution")
	for i := range preferred {
		item := list.item(i)
		x.weight(&item, preferred[i].Weight)
		c := item.child("podAffinityTerm")
		x.podTerm(&c, &preferred[i].PodAffinityTerm)
	}
}

func (x *examiner) podTerm(p *place, t *corev1.PodAffinityTerm) {
	x.labelSelector(p, "labelSelector", t.LabelSelector)
	x.labelSelector(p, "namespaceSelector", t.NamespaceSelector)
	names := p.child("namespaces")
	for i, n := range t.Namespaces {
		if messages := label(n); messages != nil {
			item := names.item(i)
			x.invalidAll(&item, n, messages)
		}
	}
	x.matchKeys(p, t)
	key := p.child("topologyKey")
	if t.TopologyKey == "" {
		x.required(&key, emptyKey)
	}
	x.invalidAll(&key, t.TopologyKey, qualifiedName(t.TopologyKey))
}

func (x *examiner) labelSelector(p *place, name string, s *metav1.LabelSelector) {
	if s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 {
		return
	}
	c := p.child(name)
	x.errs = append(x.errs, metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, c.path())...)
}

// matchKeys checks the keys whose values a pod's own labels give.
func (x *examiner) matchKeys(p *place, t *corev1.PodAffinityTerm) {
	match, mismatch := p.child("matchLabelKeys"), p.child("mismatchLabelKeys")
	if len(t.MatchLabelKeys) > 0 && t.LabelSelector == nil {
		x.forbidden(&match, "must not be specified when labelSelector is not set")
	}
	if len(t.MismatchLabelKeys) > 0 && t.LabelSelector == nil {
		x.forbidden(&mismatch, "must not be specified when labelSelector is not set")
	}
	for i, key := range t.MatchLabelKeys {
		item := match.item(i)
		x.invalidAll(&item, key, qualifiedName(key))
		if slices.Contains(t.MismatchLabelKeys, key) {
			x.invalid(&item, key, "exists in both matchLabelKeys and mismatchLabelKeys")
		}
	}
	for i, key := range t.MismatchLabelKeys {
		item := mismatch.item(i)
		x.invalidAll(&item, key, qualifiedName(key))
	}
}

func (x *examiner) gates(p *place) {
	list := p.child("readinessGates")
	for i, g := range x.spec.ReadinessGates {
		if messages := qualifiedName(string(g.ConditionType)); messages != nil {
			item := list.item(i)
			c := item.child("conditionType")
			x.invalidAll(&c, string(g.ConditionType), messages)
		}
	}
	if len(x.spec.SchedulingGates) == 0 {
		return
	}
	var names seen[string]
	list = p.child("schedulingGates")
	for i, g := range x.spec.SchedulingGates {
		item := list.item(i)
		x.invalidAll(&item, g.Name, qualifiedName(g.Name))
		if !names.add(g.Name) {
			x.duplicate(&item, g.Name)
		}
	}
}

type spreadRule struct {
	key  string
	when corev1.UnsatisfiableConstraintAction
}

func (x *examiner) spread(p *place) {
	if len(x.spec.TopologySpreadConstraints) == 0 {
		return
	}
	var rules seen[spreadRule]
	list := p.child("topologySpreadConstraints")
	for i := range x.spec.TopologySpreadConstraints {
		t := &x.spec.TopologySpreadConstraints[i]
		item := list.item(i)
		if t.MaxSkew <= 0 {
			c := item.child("maxSkew")
			x.invalid(&c, t.MaxSkew, "must be greater than zero")
		}
		key := item.child("topologyKey")
		if t.TopologyKey == "" {
			x.required(&key, emptyKey)
		} else {
			x.invalidAll(&key, t.TopologyKey, qualifiedName(t.TopologyKey))
		}
		when := item.child("whenUnsatisfiable")
		oneOf(&x.findings, &when, t.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)
		if !rules.add(spreadRule{t.TopologyKey, t.WhenUnsatisfiable}) {
			c := item.child("{topologyKey, whenUnsatisfiable}")
			x.duplicate(&c, fmt.Sprintf("{%v, %v}", t.TopologyKey, t.WhenUnsatisfiable))
		}
		x.spreadDetails(&item, t)
	}
}

func (x *examiner) spreadDetails(p *place, t *corev1.TopologySpreadConstraint) {
	if n := t.MinDomains; n != nil {
		c := p.child("minDomains")
		if *n <= 0 {
			x.invalid(&c, *n, "must be greater than 0")
		}
		if t.WhenUnsatisfiable != corev1.DoNotSchedule {
			x.invalid(&c, *n, fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s", corev1.DoNotSchedule, t.WhenUnsatisfiable))
		}
	}
	for _, f := range [...]struct {
		name   string
		policy *corev1.NodeInclusionPolicy
	}{{"nodeAffinityPolicy", t.NodeAffinityPolicy}, {"nodeTaintsPolicy", t.NodeTaintsPolicy}} {
		if f.policy != nil {
			c := p.child(f.name)
			oneOf(&x.findings, &c, *f.policy, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
		}
	}
	keys := p.child("matchLabelKeys")
	if len(t.MatchLabelKeys) > 0 && t.LabelSelector == nil {
		x.forbidden(&keys, "must not be specified when labelSelector is not set")
	}
	for i, key := range t.MatchLabelKeys {
		item := keys.item(i)
		x.invalidAll(&item, key, qualifiedName(key))
		if t.LabelSelector != nil && selectsKey(t.LabelSelector, key) && !x.pod {
			x.invalid(&item, key, "exists in both matchLabelKeys and labelSelector")
		}
	}
	x.labelSelector(p, "labelSelector", t.LabelSelector)
}

func selectsKey(s *metav1.LabelSelector, key string) bool {
	if _, ok := s.MatchLabels[key]; ok {
		return true
	}
	return slices.ContainsFunc(s.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key == key })
}

func (x *examiner) tolerations(p *place) {
	if len(x.spec.Tolerations) == 0 {
		return
	}
	c := p.child("tolerations")
	x.tolerationList(&c, x.spec.Tolerations)
}

func (x *examiner) tolerationList(p *place, list []corev1.Toleration) {
	for i := range list {
		p.forget()
		item := p.item(i)
		x.toleration(&item, &list[i])
	}
}

func (x *examiner) toleration(p *place, t *corev1.Toleration) {
	operator, effect := p.child("operator"), p.child("effect")
	if t.Key != "" {
		key := p.child("key")
		x.invalidAll(&key, t.Key, qualifiedName(t.Key))
	} else if t.Operator != corev1.TolerationOpExists {
		x.invalid(&operator, t.Operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		x.invalid(&effect, t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
	}
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		if messages := labelValue(t.Value); messages != nil {
			x.invalid(&operator, t.Value, strings.Join(messages, ";"))
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			x.invalid(&operator, t.Value, "value must be empty when `operator` is 'Exists'")
		}
	default:
		oneOf(&x.findings, &operator, t.Operator, corev1.TolerationOpEqual, corev1.TolerationOpExists)
	}
	if t.Effect != "" {
		oneOf(&x.findings, &effect, t.Effect, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
	}
}

// ValidateTolerations checks tolerations, wherever they stand.
func ValidateTolerations(list []corev1.Toleration, path *field.Path) field.ErrorList {
	var x examiner
	p := x.at(path)
	x.tolerationList(&p, list)
	return x.errs
}

// MatchOwnLabels turns the keys that stand for a pod's own labels into requirements of selectors. It is done once, when
// a pod is created.
func MatchOwnLabels(p *corev1.Pod) {
	if a := p.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			matchOwn(p, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if a.PodAntiAffinity != nil {
			matchOwn(p, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
	for i := range p.Spec.TopologySpreadConstraints {
		t := &p.Spec.TopologySpreadConstraints[i]
		requireOwn(p, t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn)
	}
}

func matchOwn(p *corev1.Pod, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	one := func(t *corev1.PodAffinityTerm) {
		requireOwn(p, t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn)
		requireOwn(p, t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
	}
	for i := range required {
		one(&required[i])
	}
	for i := range preferred {
		one(&preferred[i].PodAffinityTerm)
	}
}

func requireOwn(p *corev1.Pod, s *metav1.LabelSelector, keys []string, op metav1.LabelSelectorOperator) {
	if s == nil {
		return
	}
	for _, key := range keys {
		if value, has := p.Labels[key]; has {
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: []string{value}})
		}
	}
}
