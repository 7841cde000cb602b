package node

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/podspec"
	"github.com/millrace/millrace/internal/server/resource/quote"
)

// checkOverhead requires quantities that are valid as limits of a container.
func checkOverhead(o *nodev1.Overhead, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(o.PodFixed)) {
		at := path.Child("limits").Key(string(name))
		errs = append(errs, check.ContainerResourceName(string(name), at)...)
		errs = append(errs, check.Quantity(string(name), o.PodFixed[name], at)...)
	}
	return errs
}

func checkScheduling(s *nodev1.Scheduling, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.NodeSelector != nil {
		errs = append(errs, metav1validation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector"))...)
	}
	at := path.Child("tolerations")
	for i := range s.Tolerations {
		errs = append(errs, checkToleration(&s.Tolerations[i], at.Index(i))...)
	}
	for i := range s.Tolerations {
		for j := range i {
			if equality.Semantic.DeepEqual(s.Tolerations[i], s.Tolerations[j]) {
				errs = append(errs, field.Duplicate(at.Index(i), quote.Of(s.Tolerations[i])))
				break
			}
		}
	}
	return errs
}

func checkToleration(t *corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, path.Child("key"))...)
	} else if t.Operator != corev1.TolerationOpExists {
		errs = append(errs, field.Invalid(path.Child("operator"), t.Operator,
			"operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		errs = append(errs, field.Invalid(path.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
	}
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		if bad := validation.IsValidLabelValue(t.Value); len(bad) > 0 {
			errs = append(errs, field.Invalid(path.Child("operator"), t.Value, strings.Join(bad, ";")))
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(path.Child("operator"), t.Value, "value must be empty when `operator` is 'Exists'"))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("operator"), t.Operator, []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
	}
	if t.Effect != "" {
		errs = append(errs, check.OneOf(t.Effect, path.Child("effect"), corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
	}
	return errs
}

func warnings(c *nodev1.RuntimeClass) []string {
	var out []string
	if c.Scheduling != nil {
		for _, key := range slices.Sorted(maps.Keys(c.Scheduling.NodeSelector)) {
			text, old := podspec.NodeLabelWarning(key)
			if key == "node-role.kubernetes.io/master" {
				text, old = `use "node-role.kubernetes.io/control-plane" instead`, true
			}
			if old {
				out = append(out, field.NewPath("scheduling", "nodeSelector").String()+": "+text)
			}
		}
	}
	return out
}
