package batch

import (
	"fmt"
	"math"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/podspec"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// Jobs run pods until enough of them have succeeded.
func Jobs() *resource.Kind {
	return resource.Define(resource.Description[*batchv1.Job]{
		Group: group, Version: version, Kind: "Job", Resource: "jobs", Namespaced: true, Categories: []string{"all"},
		ValidateMetaTwice:   true,
		UnconditionalUpdate: true, OrphanByDefault: true,
		Default: defaultJob,
		Rules:   jobRules,
		Status:  &jobStatusRules,
		Fields:  []resource.Field{{Label: "status.successful", Path: "status.succeeded"}},
		Columns: jobColumns,
		Row:     jobRow,
	})
}

func defaultJob(j *batchv1.Job) {
	s := &j.Spec
	podspec.DefaultTemplate(&s.Template)
	if s.Completions == nil && s.Parallelism == nil {
		s.Completions = new(int32(1))
	}
	orNew(&s.Parallelism, 1)
	if s.BackoffLimitPerIndex != nil {
		orNew(&s.BackoffLimit, math.MaxInt32)
	}
	orNew(&s.BackoffLimit, 6)
	if t := s.Template.Labels; t != nil && len(j.Labels) == 0 {
		// Job and template share one map, as in Kubernetes: labels that the server adds to the template are also on the
		// job.
		j.Labels = t
	}
	orNew(&s.CompletionMode, batchv1.NonIndexedCompletion)
	orNew(&s.Suspend, false)
	orNew(&s.ManualSelector, false)
	if s.PodFailurePolicy != nil {
		defaultFailurePolicy(s.PodFailurePolicy)
		orNew(&s.PodReplacementPolicy, batchv1.Failed)
	}
	orNew(&s.PodReplacementPolicy, batchv1.TerminatingOrFailed)
}

func defaultFailurePolicy(p *batchv1.PodFailurePolicy) {
	for i := range p.Rules {
		for j := range p.Rules[i].OnPodConditions {
			if c := &p.Rules[i].OnPodConditions[j]; c.Status == "" {
				c.Status = corev1.ConditionTrue
			}
		}
	}
}

var jobColumns = []table.Column{
	table.Name(),
	table.Text("Status", "Status of the job."),
	table.Text("Completions", batchv1.JobStatus{}.SwaggerDoc()["succeeded"]),
	table.Text("Duration", "Time required to complete the job."),
	table.Age(),
	table.Wide(table.Text("Containers", "Names of each container in the template.")),
	table.Wide(table.Text("Images", "Images referenced by each container in the template.")),
	table.Wide(table.Text("Selector", batchv1.JobSpec{}.SwaggerDoc()["selector"])),
}

func jobRow(j *batchv1.Job) resource.Row {
	names, images := podspec.NamesAndImages(j.Spec.Template.Spec.Containers)
	return resource.Row{Cells: []any{
		j.Name, jobState(j), jobCompletions(j), jobDuration(j), table.Since(j.CreationTimestamp),
		names, images, metav1.FormatLabelSelector(j.Spec.Selector),
	}}
}

func jobCompletions(j *batchv1.Job) string {
	switch {
	case j.Spec.Completions != nil:
		return fmt.Sprintf("%d/%d", j.Status.Succeeded, *j.Spec.Completions)
	case j.Spec.Parallelism != nil && *j.Spec.Parallelism > 1:
		return fmt.Sprintf("%d/1 of %d", j.Status.Succeeded, *j.Spec.Parallelism)
	}
	return fmt.Sprintf("%d/1", j.Status.Succeeded)
}

func jobDuration(j *batchv1.Job) string {
	if j.Status.StartTime == nil {
		return ""
	}
	end := time.Now()
	if j.Status.CompletionTime != nil {
		end = j.Status.CompletionTime.Time
	}
	return duration.HumanDuration(end.Sub(j.Status.StartTime.Time))
}

func jobState(j *batchv1.Job) string {
	switch {
	case jobHas(j, batchv1.JobComplete):
		return "Complete"
	case jobHas(j, batchv1.JobFailed):
		return "Failed"
	case j.DeletionTimestamp != nil:
		return "Terminating"
	case jobHas(j, batchv1.JobSuspended):
		return "Suspended"
	case jobHas(j, batchv1.JobFailureTarget):
		return "FailureTarget"
	case jobHas(j, batchv1.JobSuccessCriteriaMet):
		return "SuccessCriteriaMet"
	}
	return "Running"
}
