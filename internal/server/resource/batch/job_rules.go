package batch

import (
	"context"
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/podspec"
	"github.com/millrace/millrace/internal/server/resource/quote"
)

var specPath = field.NewPath("spec")

var jobRules = resource.Rules[*batchv1.Job]{
	PrepareCreate:  func(_ context.Context, j *batchv1.Job) { selectOwn(j) },
	Validate:       checkJob,
	ValidateUpdate: checkJobUpdate,
	Warnings: func(_ context.Context, j, old *batchv1.Job) []string {
		if old != nil {
			return nil
		}
		return podspec.TemplateOwnerWarnings(j, old, &j.Spec.Template, specPath.Child("template"))
	},
}

// Labels of a job's pods; the short ones are older.
const (
	oldUIDLabel  = "controller-uid"
	oldNameLabel = "job-name"
)

// selectOwn sets the job's selector to its own pods. It does not replace what the client has set; validation reports
// errors in that.
func selectOwn(j *batchv1.Job) {
	s := &j.Spec
	if s.ManualSelector != nil && *s.ManualSelector {
		return
	}
	if s.Template.Labels == nil {
		s.Template.Labels = map[string]string{}
	}
	if len(j.Labels) == 0 {
		j.Labels = s.Template.Labels
	}
	for key, value := range ownLabels(j) {
		if _, set := s.Template.Labels[key]; !set {
			s.Template.Labels[key] = value
		}
	}
	if s.Selector == nil {
		s.Selector = &metav1.LabelSelector{}
	}
	if s.Selector.MatchLabels == nil {
		s.Selector.MatchLabels = map[string]string{}
	}
	if _, set := s.Selector.MatchLabels[batchv1.ControllerUidLabel]; !set {
		s.Selector.MatchLabels[batchv1.ControllerUidLabel] = string(j.UID)
	}
}

func ownLabels(j *batchv1.Job) map[string]string {
	return map[string]string{
		batchv1.ControllerUidLabel: string(j.UID), oldUIDLabel: string(j.UID),
		batchv1.JobNameLabel: j.Name, oldNameLabel: j.Name,
	}
}

func checkJob(ctx context.Context, j *batchv1.Job) field.ErrorList {
	errs := checkOwnSelector(j)
	errs = append(errs, checkSelectedSpec(ctx, &j.Spec)...)
	if n := j.Spec.Completions; isIndexed(&j.Spec) && n != nil && *n > 0 {
		last := j.Name + "-" + strconv.Itoa(int(*n)-1)
		if len(validation.IsDNS1123Label(last)) > 0 {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), j.Name, "will not able to create pod with invalid DNS label: "+last))
		}
	}
	return errs
}

func isIndexed(s *batchv1.JobSpec) bool {
	return s.CompletionMode != nil && *s.CompletionMode == batchv1.IndexedCompletion
}

// checkOwnSelector requires what the server adds, unless the job has a manual selector.
func checkOwnSelector(j *batchv1.Job) field.ErrorList {
	if m := j.Spec.ManualSelector; m != nil && *m || j.Spec.Selector == nil {
		return nil
	}
	var errs field.ErrorList
	if j.UID == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "uid"), ""))
	}
	own := ownLabels(j)
	path := specPath.Child("template", "metadata", "labels")
	for _, key := range []string{oldUIDLabel, oldNameLabel, batchv1.ControllerUidLabel, batchv1.JobNameLabel} {
		switch value, set := j.Spec.Template.Labels[key]; {
		case !set:
			errs = append(errs, field.Required(path.Key(key), fmt.Sprintf("must be '%s'", own[key])))
		case value != own[key]:
			errs = append(errs, field.Invalid(path.Key(key), j.Spec.Template.Labels, fmt.Sprintf("must be '%s'", own[key])))
		}
	}
	if selector, err := metav1.LabelSelectorAsSelector(j.Spec.Selector); err == nil && !selector.Matches(labels.Set(own)) {
		errs = append(errs, field.Invalid(specPath.Child("selector"), j.Spec.Selector, "`selector` not auto-generated"))
	}
	return errs
}

// checkSelectedSpec validates a job's spec with its selector; templates of jobs have none.
func checkSelectedSpec(ctx context.Context, s *batchv1.JobSpec) field.ErrorList {
	errs := checkJobSpec(ctx, s, specPath)
	path := specPath.Child("selector")
	if s.Selector == nil {
		errs = append(errs, field.Required(path, ""))
	} else {
		errs = append(errs, metavalidation.ValidateLabelSelector(s.Selector, metavalidation.LabelSelectorValidationOptions{}, path)...)
	}
	if selector, err := metav1.LabelSelectorAsSelector(s.Selector); err == nil {
		errs = append(errs, podspec.ValidateSelected(&s.Template, selector, specPath.Child("template"))...)
	}
	return errs
}

// checkJobUpdate refuses changes of a job's work.
func checkJobUpdate(ctx context.Context, j, old *batchv1.Job) field.ErrorList {
	s, was := &j.Spec, &old.Spec
	errs := checkJob(ctx, j)
	errs = append(errs, checkSelectedSpec(ctx, s)...) // Kubernetes validates it twice
	errs = append(errs, checkCompletionsUpdate(s, was)...)
	errs = append(errs, immutable(s.Selector, was.Selector, "selector")...)
	errs = append(errs, checkTemplateUpdate(s, old)...)
	errs = append(errs, immutable(s.CompletionMode, was.CompletionMode, "completionMode")...)
	errs = append(errs, immutable(s.PodFailurePolicy, was.PodFailurePolicy, "podFailurePolicy")...)
	errs = append(errs, immutable(s.BackoffLimitPerIndex, was.BackoffLimitPerIndex, "backoffLimitPerIndex")...)
	errs = append(errs, immutable(s.ManagedBy, was.ManagedBy, "managedBy")...)
	return append(errs, immutable(s.SuccessPolicy, was.SuccessPolicy, "successPolicy")...)
}

func immutable[T any](now, before T, name string) field.ErrorList {
	if equality.Semantic.DeepEqual(now, before) {
		return nil
	}
	return field.ErrorList{field.Invalid(specPath.Child(name), quote.Of(now), "field is immutable").WithOrigin("immutable")}
}

// checkCompletionsUpdate allows an indexed job whose parallelism equals its completions to change both.
func checkCompletionsUpdate(s, was *batchv1.JobSpec) field.ErrorList {
	if equality.Semantic.DeepEqual(s.Completions, was.Completions) {
		return nil
	}
	if !isIndexed(s) || s.Completions == nil || was.Completions == nil {
		return immutable(s.Completions, was.Completions, "completions")
	}
	if !equality.Semantic.DeepEqual(s.Completions, s.Parallelism) || !equality.Semantic.DeepEqual(was.Completions, was.Parallelism) {
		return field.ErrorList{field.Invalid(specPath.Child("completions"), *s.Completions,
			fmt.Sprintf("can only be modified in tandem with %s", specPath.Child("parallelism")))}
	}
	return nil
}

// checkTemplateUpdate allows scheduling directives to change while a job is suspended and has never run.
func checkTemplateUpdate(s *batchv1.JobSpec, old *batchv1.Job) field.ErrorList {
	was := old.Spec.Template.DeepCopy()
	if old.Spec.Suspend != nil && *old.Spec.Suspend && old.Status.StartTime == nil {
		was.Spec.NodeSelector, was.Spec.Tolerations = s.Template.Spec.NodeSelector, s.Template.Spec.Tolerations
		was.Spec.SchedulingGates = s.Template.Spec.SchedulingGates
		was.Labels, was.Annotations = s.Template.Labels, s.Template.Annotations
		was.Spec.Affinity = nodesOf(was.Spec.Affinity, s.Template.Spec.Affinity)
	}
	return immutable(s.Template, *was, "template")
}

// nodesOf returns the affinity was with the node affinity of now.
func nodesOf(was, now *corev1.Affinity) *corev1.Affinity {
	switch {
	case was == nil && now != nil:
		return &corev1.Affinity{NodeAffinity: now.NodeAffinity}
	case was == nil:
		return nil
	case now != nil:
		was.NodeAffinity = now.NodeAffinity
		return was
	}
	was.NodeAffinity = nil
	if was.PodAffinity == nil && was.PodAntiAffinity == nil {
		return nil
	}
	return was
}
