package batch

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/podspec"
	"github.com/millrace/millrace/internal/server/resource/quote"
)

// The maximum sizes of jobs.
const (
	maxIndexesAtOnce  = 100_000
	maxFailedIndexes  = 100_000
	manyCompletions   = 100_000
	maxFailedOfMany   = 10_000
	maxParallelOfMany = 10_000
	longestManager    = 63
)

func checkJobSpec(ctx context.Context, s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, nonNegative(s.Parallelism, path, "parallelism")...)
	errs = append(errs, nonNegative(s.Completions, path, "completions")...)
	errs = append(errs, nonNegative(s.ActiveDeadlineSeconds, path, "activeDeadlineSeconds")...)
	errs = append(errs, nonNegative(s.BackoffLimit, path, "backoffLimit")...)
	errs = append(errs, nonNegative(s.TTLSecondsAfterFinished, path, "ttlSecondsAfterFinished")...)
	errs = append(errs, nonNegative(s.BackoffLimitPerIndex, path, "backoffLimitPerIndex")...)
	errs = append(errs, nonNegative(s.MaxFailedIndexes, path, "maxFailedIndexes")...)
	if m := s.ManagedBy; m != nil {
		errs = append(errs, validation.IsDomainPrefixedPath(path.Child("managedBy"), *m)...)
		if len(*m) > longestManager {
			errs = append(errs, field.TooLong(path.Child("managedBy"), *m, longestManager))
		}
	}
	errs = append(errs, checkIndexes(s, path)...)
	errs = append(errs, checkPolicies(s, path)...)
	errs = append(errs, podspec.ValidateTemplate(&s.Template, path.Child("template"), podspec.OptionsFrom(ctx))...)
	return append(errs, checkRestartPolicy(s, path)...)
}

func nonNegative[N int32 | int64](n *N, path *field.Path, name string) field.ErrorList {
	if n == nil || *n >= 0 {
		return nil
	}
	return check.NonNegative(int64(*n), path.Child(name))
}

func checkRestartPolicy(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	at := func() *field.Path { return path.Child("template", "spec", "restartPolicy") }
	switch p := s.Template.Spec.RestartPolicy; {
	case p == "" || p == corev1.RestartPolicyAlways:
		return field.ErrorList{field.Required(at(), fmt.Sprintf("valid values: %q, %q", corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever))}
	case p != corev1.RestartPolicyOnFailure && p != corev1.RestartPolicyNever:
		return field.ErrorList{field.NotSupported(at(), p, []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever})}
	case s.PodFailurePolicy != nil && p != corev1.RestartPolicyNever:
		return field.ErrorList{field.Invalid(at(), p, fmt.Sprintf("only %q is supported when podFailurePolicy is specified", corev1.RestartPolicyNever))}
	}
	return nil
}

func checkIndexes(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m := s.CompletionMode; m != nil {
		errs = append(errs, check.OneOf(*m, path.Child("completionMode"), batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)...)
	}
	if n := s.BackoffLimitPerIndex; n != nil && !isIndexed(s) {
		errs = append(errs, field.Invalid(path.Child("backoffLimitPerIndex"), *n, "requires indexed completion mode"))
	}
	if n := s.MaxFailedIndexes; n != nil {
		if s.BackoffLimitPerIndex == nil {
			errs = append(errs, field.Required(path.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
		}
		if !isIndexed(s) {
			errs = append(errs, field.Invalid(path.Child("maxFailedIndexes"), *n, "requires indexed completion mode"))
		}
	}
	if isIndexed(s) {
		if s.Completions == nil {
			errs = append(errs, field.Required(path.Child("completions"), fmt.Sprintf("when completion mode is %s", batchv1.IndexedCompletion)))
		}
		if p := s.Parallelism; p != nil && *p > maxIndexesAtOnce {
			errs = append(errs, field.Invalid(path.Child("parallelism"), *p,
				fmt.Sprintf("must be less than or equal to %d when completion mode is %s", maxIndexesAtOnce, batchv1.IndexedCompletion)))
		}
		if f := s.MaxFailedIndexes; s.Completions != nil && f != nil && *f > *s.Completions {
			errs = append(errs, field.Invalid(path.Child("maxFailedIndexes"), *f, "must be less than or equal to completions"))
		}
		if f := s.MaxFailedIndexes; f != nil && *f > maxFailedIndexes {
			errs = append(errs, field.Invalid(path.Child("maxFailedIndexes"), *f, fmt.Sprintf("must be less than or equal to %d", maxFailedIndexes)))
		}
		errs = append(errs, checkManyIndexes(s, path)...)
	}
	return errs
}

// checkManyIndexes bounds what must be remembered for a very large job with backoff per index.
func checkManyIndexes(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if s.Completions == nil || *s.Completions <= manyCompletions || s.BackoffLimitPerIndex == nil {
		return nil
	}
	var errs field.ErrorList
	if p := s.Parallelism; p != nil && *p > maxParallelOfMany {
		errs = append(errs, field.Invalid(path.Child("parallelism"), *p,
			fmt.Sprintf("must be less than or equal to %d when completions are above %d and used with backoff limit per index", maxParallelOfMany, manyCompletions)))
	}
	switch f := s.MaxFailedIndexes; {
	case f == nil:
		errs = append(errs, field.Required(path.Child("maxFailedIndexes"), fmt.Sprintf("must be specified when completions is above %d", manyCompletions)))
	case *f > maxFailedOfMany:
		errs = append(errs, field.Invalid(path.Child("maxFailedIndexes"), *f,
			fmt.Sprintf("must be less than or equal to %d when completions are above %d and used with backoff limit per index", maxFailedOfMany, manyCompletions)))
	}
	return errs
}

func checkPolicies(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.PodFailurePolicy != nil {
		errs = append(errs, checkFailurePolicy(s, path.Child("podFailurePolicy"))...)
	}
	if s.SuccessPolicy != nil {
		if !isIndexed(s) {
			errs = append(errs, field.Invalid(path.Child("successPolicy"), quote.Of(s.SuccessPolicy), "requires indexed completion mode"))
		} else {
			errs = append(errs, checkSuccessPolicy(s, path.Child("successPolicy"))...)
		}
	}
	if p := s.PodReplacementPolicy; p != nil {
		known := []batchv1.PodReplacementPolicy{batchv1.Failed, batchv1.TerminatingOrFailed}
		if s.PodFailurePolicy != nil {
			known = known[:1]
		}
		errs = append(errs, check.OneOf(*p, path.Child("podReplacementPolicy"), known...)...)
	}
	return errs
}
