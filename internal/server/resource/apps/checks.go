package apps

import (
	"context"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/podspec"
)

var (
	specPath     = field.NewPath("spec")
	statusPath   = field.NewPath("status")
	selectorPath = specPath.Child("selector")
	templatePath = specPath.Child("template")
)

// checkSelector requires a selector that is not empty. what is the kind in Kubernetes' message.
func checkSelector(s *metav1.LabelSelector, what string) field.ErrorList {
	if s == nil {
		return field.ErrorList{field.Required(selectorPath, "")}
	}
	errs := metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, selectorPath)
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(selectorPath, s, "empty selector is invalid for "+what))
	}
	return errs
}

// checkReplicated validates the selector and the template of a set of equal pods.
func checkReplicated(ctx context.Context, s *metav1.LabelSelector, t *corev1.PodTemplateSpec, replicas int32) field.ErrorList {
	errs := checkSelector(s, "deployment")
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return append(errs, field.Invalid(selectorPath, s, "invalid label selector"))
	}
	errs = append(errs, podspec.ValidateSelected(t, selector, templatePath)...)
	errs = append(errs, podspec.ValidateTemplate(t, templatePath, podspec.OptionsFrom(ctx))...)
	if replicas > 1 {
		errs = append(errs, podspec.ValidateShared(t, templatePath)...)
	}
	return append(errs, podspec.ValidateRunningTemplate(t, templatePath, "ReplicaSet")...)
}

// nonNegative validates several numbers of an object.
func nonNegative(part *field.Path, numbers ...number) field.ErrorList {
	var errs field.ErrorList
	for _, n := range numbers {
		if n.value < 0 {
			errs = append(errs, check.NonNegative(n.value, part.Child(n.name))...)
		}
	}
	return errs
}

type number struct {
	name  string
	value int64
}

func optional(n *int32) int64 { return int64(valueOf(n)) }

// checkAmount requires a number of pods or a percentage.
func checkAmount(n intstr.IntOrString, path *field.Path) field.ErrorList {
	if n.Type == intstr.String {
		return check.Invalid(path, n, validation.IsValidPercent(n.StrVal))
	}
	return check.NonNegative(int64(n.IntValue()), path)
}

// notMoreThanAll refuses percentages above 100.
func notMoreThanAll(n intstr.IntOrString, path *field.Path) field.ErrorList {
	if percent, ok := percentOf(n); ok && percent > 100 {
		return field.ErrorList{field.Invalid(path, n, "must not be greater than 100%")}
	}
	return nil
}

func percentOf(n intstr.IntOrString) (int, bool) {
	if n.Type != intstr.String || len(validation.IsValidPercent(n.StrVal)) > 0 {
		return 0, false
	}
	percent, err := strconv.Atoi(strings.TrimSuffix(n.StrVal, "%"))
	return percent, err == nil
}

// isZero reports whether an amount is 0 or 0%.
func isZero(n *intstr.IntOrString) bool {
	if n == nil {
		return true
	}
	if percent, ok := percentOf(*n); ok {
		return percent == 0
	}
	return n.IntValue() == 0 // a value that is neither a percentage nor a number counts as zero
}

// notMoreThan requires that none of the numbers exceeds whole.
func notMoreThan(whole int64, words string, numbers ...number) field.ErrorList {
	var errs field.ErrorList
	for _, n := range numbers {
		if n.value > whole {
			errs = append(errs, field.Invalid(statusPath.Child(n.name), n.value, words))
		}
	}
	return errs
}

// neverLess validates a count that must not decrease.
func neverLess(now, before *int32, path *field.Path) field.ErrorList {
	if before != nil && (now == nil || *now < *before) {
		return field.ErrorList{field.Invalid(path, valueOf(now), "cannot be decremented")}
	}
	return nil
}
