package job

import (
	"fmt"
	"math"
	"slices"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/millrace/millrace/internal/controllers/podview"
)

// ruling is the result of the pod failure policy for a failed pod.
type ruling struct {
	counts    bool
	failIndex bool
	failJob   string                         // the reason, if the whole Job fails
	action    batchv1.PodFailurePolicyAction // of the rule that applies, if any
}

func rule(job *batchv1.Job, pod *podview.Pod) ruling {
	if job.Spec.PodFailurePolicy == nil {
		return ruling{counts: true}
	}
	for i := range job.Spec.PodFailurePolicy.Rules {
		r := &job.Spec.PodFailurePolicy.Rules[i]
		why, ok := matches(r, pod)
		if !ok {
			continue
		}
		switch r.Action {
		case batchv1.PodFailurePolicyActionIgnore:
			return ruling{action: r.Action}
		case batchv1.PodFailurePolicyActionFailIndex:
			return ruling{counts: true, failIndex: job.Spec.BackoffLimitPerIndex != nil, action: r.Action}
		case batchv1.PodFailurePolicyActionFailJob:
			return ruling{counts: true, failJob: fmt.Sprintf("%s matching %v rule at index %d", why, r.Action, i), action: r.Action}
		}
		return ruling{counts: true, action: r.Action}
	}
	return ruling{counts: true}
}

func matches(r *batchv1.PodFailurePolicyRule, pod *podview.Pod) (why string, ok bool) {
	if r.OnExitCodes != nil {
		for _, exit := range pod.Exits {
			if exit.Code != 0 && wants(r.OnExitCodes, exit) {
				return fmt.Sprintf("Container %s for pod %s/%s failed with exit code %d", exit.Container, pod.Namespace, pod.Name, exit.Code), true
			}
		}
		return "", false
	}
	for _, pattern := range r.OnPodConditions {
		if c, found := pod.Condition(pattern.Type); found && c.Status == pattern.Status {
			return fmt.Sprintf("Pod %s/%s has condition %v", pod.Namespace, pod.Name, pattern.Type), true
		}
	}
	return "", false
}

func wants(r *batchv1.PodFailurePolicyOnExitCodesRequirement, exit podview.Exit) bool {
	if r.ContainerName != nil && *r.ContainerName != exit.Container {
		return false
	}
	return slices.Contains(r.Values, exit.Code) == (r.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn)
}

// succeededBy returns the first rule of the success policy that the completed indexes fulfil.
func succeededBy(job *batchv1.Job, completed indexes) (rule int, ok bool) {
	if job.Spec.SuccessPolicy == nil || !indexed(job) {
		return 0, false
	}
	for i, r := range job.Spec.SuccessPolicy.Rules {
		of, need := indexes{{0, math.MaxInt32}}, 0
		if r.SucceededIndexes != nil {
			of = parseIndexes(*r.SucceededIndexes, completions(job))
			need = of.len()
		}
		if r.SucceededCount != nil {
			need = int(*r.SucceededCount)
		}
		if need > 0 && completed.in(of) >= need {
			return i, true
		}
	}
	return 0, false
}

func indexed(job *batchv1.Job) bool {
	return job.Spec.CompletionMode != nil && *job.Spec.CompletionMode == batchv1.IndexedCompletion && job.Spec.Completions != nil
}

func perIndex(job *batchv1.Job) bool { return indexed(job) && job.Spec.BackoffLimitPerIndex != nil }

func completions(job *batchv1.Job) int {
	if job.Spec.Completions == nil {
		return math.MaxInt32
	}
	return int(*job.Spec.Completions)
}

func parallelism(job *batchv1.Job) int {
	if job.Spec.Parallelism == nil {
		return 1
	}
	return int(*job.Spec.Parallelism)
}

func suspended(job *batchv1.Job) bool { return job.Spec.Suspend != nil && *job.Spec.Suspend }

// awaitsEnd reports whether a pod is replaced only when it has ended, and not already when it is being deleted.
func awaitsEnd(job *batchv1.Job) bool {
	if job.Spec.PodReplacementPolicy != nil {
		return *job.Spec.PodReplacementPolicy == batchv1.Failed
	}
	return job.Spec.PodFailurePolicy != nil
}
