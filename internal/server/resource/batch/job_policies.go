package batch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
)

// The maximum lengths of policies.
const (
	maxFailureRules = 20
	maxConditions   = 20
	maxExitCodes    = 255
	maxSuccessRules = 20
	longestIndexes  = 64 * 1024
)

func checkFailurePolicy(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	rules := path.Child("rules")
	if n := len(s.PodFailurePolicy.Rules); n > maxFailureRules {
		errs = append(errs, field.TooMany(rules, n, maxFailureRules))
	}
	for i := range s.PodFailurePolicy.Rules {
		errs = append(errs, checkFailureRule(s, &s.PodFailurePolicy.Rules[i], rules.Index(i))...)
	}
	return errs
}

func checkFailureRule(s *batchv1.JobSpec, r *batchv1.PodFailurePolicyRule, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	actions := []batchv1.PodFailurePolicyAction{
		batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
		batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore,
	}
	switch {
	case r.Action == "":
		errs = append(errs, field.Required(path.Child("action"), fmt.Sprintf("valid values: %q", actions)))
	case r.Action == batchv1.PodFailurePolicyActionFailIndex && s.BackoffLimitPerIndex == nil:
		errs = append(errs, field.Invalid(path.Child("action"), r.Action, "requires the backoffLimitPerIndex to be set"))
	default:
		errs = append(errs, check.OneOf(r.Action, path.Child("action"), actions...)...)
	}
	if r.OnExitCodes != nil {
		errs = append(errs, checkExitCodes(s, r.OnExitCodes, path.Child("onExitCodes"))...)
	}
	if len(r.OnPodConditions) > 0 {
		errs = append(errs, checkPodConditions(r.OnPodConditions, path.Child("onPodConditions"))...)
	}
	switch {
	case r.OnExitCodes != nil && len(r.OnPodConditions) > 0:
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported"))
	case r.OnExitCodes == nil && len(r.OnPodConditions) == 0:
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required"))
	}
	return errs
}

func checkExitCodes(s *batchv1.JobSpec, r *batchv1.PodFailurePolicyOnExitCodesRequirement, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	in, notIn := batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn
	if r.Operator == "" {
		errs = append(errs, field.Required(path.Child("operator"), fmt.Sprintf("valid values: %q", []batchv1.PodFailurePolicyOnExitCodesOperator{in, notIn})))
	} else {
		errs = append(errs, check.OneOf(r.Operator, path.Child("operator"), in, notIn)...)
	}
	if n := r.ContainerName; n != nil && !hasContainer(&s.Template.Spec, *n) {
		errs = append(errs, field.Invalid(path.Child("containerName"), *n, "must be one of the container or initContainer names in the pod template"))
	}
	values := path.Child("values")
	if len(r.Values) < 1 {
		errs = append(errs, field.Invalid(values, r.Values, "at least one value is required"))
	} else if len(r.Values) > maxExitCodes {
		errs = append(errs, field.TooMany(values, len(r.Values), maxExitCodes))
	}
	ordered := true
	seen := map[int32]bool{}
	for i, v := range r.Values {
		if r.Operator == in && v == 0 {
			errs = append(errs, field.Invalid(values.Index(i), v, "must not be 0 for the In operator"))
		}
		if seen[v] {
			errs = append(errs, field.Duplicate(values.Index(i), v))
		}
		seen[v] = true
		ordered = ordered && (i == 0 || r.Values[i-1] <= v)
	}
	if !ordered {
		errs = append(errs, field.Invalid(values, r.Values, "must be ordered"))
	}
	return errs
}

func hasContainer(s *corev1.PodSpec, name string) bool {
	named := func(c corev1.Container) bool { return c.Name == name }
	return slices.ContainsFunc(s.Containers, named) || slices.ContainsFunc(s.InitContainers, named)
}

func checkPodConditions(patterns []batchv1.PodFailurePolicyOnPodConditionsPattern, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(patterns) > maxConditions {
		errs = append(errs, field.TooMany(path, len(patterns), maxConditions))
	}
	for i, p := range patterns {
		errs = append(errs, check.Invalid(path.Index(i).Child("type"), string(p.Type), validation.IsQualifiedName(string(p.Type)))...)
		status := path.Index(i).Child("status")
		if p.Status == "" {
			errs = append(errs, field.Required(status, fmt.Sprintf("valid values: %q", []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown})))
		} else {
			errs = append(errs, check.OneOf(p.Status, status, corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown)...)
		}
	}
	return errs
}

func checkSuccessPolicy(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	rules := path.Child("rules")
	if len(s.SuccessPolicy.Rules) == 0 {
		return field.ErrorList{field.Required(rules, "at least one rules must be specified when the successPolicy is specified")}
	}
	var errs field.ErrorList
	if n := len(s.SuccessPolicy.Rules); n > maxSuccessRules {
		errs = append(errs, field.TooMany(rules, n, maxSuccessRules))
	}
	for i := range s.SuccessPolicy.Rules {
		errs = append(errs, checkSuccessRule(s, &s.SuccessPolicy.Rules[i], rules.Index(i))...)
	}
	return errs
}

func checkSuccessRule(s *batchv1.JobSpec, r *batchv1.SuccessPolicyRule, path *field.Path) field.ErrorList {
	if r.SucceededCount == nil && r.SucceededIndexes == nil {
		return field.ErrorList{field.Required(path, "at least one of succeededCount or succeededIndexes must be specified")}
	}
	var errs field.ErrorList
	total := int32(0)
	if x := r.SucceededIndexes; x != nil {
		at := path.Child("succeededIndexes")
		if len(*x) > longestIndexes {
			errs = append(errs, field.TooLong(at, *x, longestIndexes))
		}
		n, err := countIndexes(*x, *s.Completions)
		if err != nil {
			errs = append(errs, field.Invalid(at, *x, "error parsing succeededIndexes: "+err.Error()))
		}
		total = n
	}
	if c := r.SucceededCount; c != nil {
		at := path.Child("succeededCount")
		errs = append(errs, check.NonNegative(int64(*c), at)...)
		if *c > *s.Completions {
			errs = append(errs, field.Invalid(at, *c, fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", *s.Completions)))
		}
		if r.SucceededIndexes != nil && *c > total {
			errs = append(errs, field.Invalid(at, *c, fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", total)))
		}
	}
	return errs
}

// countIndexes parses ascending numbers and intervals, such as "1,3-5,7", and counts them.
func countIndexes(text string, completions int32) (int32, error) {
	if text == "" {
		return 0, nil
	}
	var total int32
	last := int64(-1)
	for part := range strings.SplitSeq(text, ",") {
		from, to, interval := strings.Cut(part, "-")
		if !interval {
			to = from
		} else if strings.Contains(to, "-") {
			return 0, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", part)
		}
		first, err := strconv.ParseInt(from, 10, 32)
		if err != nil {
			return 0, fmt.Errorf("cannot convert string to integer for index: %q", from)
		}
		end, err := strconv.ParseInt(to, 10, 32)
		if err != nil {
			return 0, fmt.Errorf("cannot convert string to integer for index: %q", to)
		}
		switch {
		case first >= int64(completions):
			return 0, fmt.Errorf("too large index: %q", from)
		case end >= int64(completions):
			return 0, fmt.Errorf("too large index: %q", to)
		case first <= last:
			return 0, fmt.Errorf("non-increasing order, previous: %d, current: %d", last, first)
		case interval && end <= first:
			return 0, fmt.Errorf("non-increasing order, previous: %d, current: %d", first, end)
		}
		total += int32(end-first) + 1
		last = end
	}
	return total, nil
}
