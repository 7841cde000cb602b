package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/podspec"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// CronJobs create jobs by a schedule.
func CronJobs() *resource.Kind {
	return resource.Define(resource.Description[*batchv1.CronJob]{
		Group: group, Version: version, Kind: "CronJob", Resource: "cronjobs",
		Namespaced: true, ShortNames: []string{"cj"}, Categories: []string{"all"},
		UnconditionalUpdate: true,
		Default:             defaultCronJob,
		Rules:               cronJobRules,
		Status:              &cronJobStatusRules,
		Columns:             cronJobColumns,
		Row:                 cronJobRow,
	})
}

func defaultCronJob(c *batchv1.CronJob) {
	s := &c.Spec
	podspec.DefaultTemplate(&s.JobTemplate.Spec.Template)
	if s.ConcurrencyPolicy == "" {
		s.ConcurrencyPolicy = batchv1.AllowConcurrent
	}
	orNew(&s.Suspend, false)
	orNew(&s.SuccessfulJobsHistoryLimit, 3)
	orNew(&s.FailedJobsHistoryLimit, 1)
}

var (
	cronJobSpecDoc   = batchv1.CronJobSpec{}.SwaggerDoc()
	cronJobStatusDoc = batchv1.CronJobStatus{}.SwaggerDoc()
)

var cronJobColumns = []table.Column{
	table.Name(),
	table.Text("Schedule", cronJobSpecDoc["schedule"]),
	table.Text("Timezone", cronJobSpecDoc["timeZone"]),
	table.Boolean("Suspend", cronJobSpecDoc["suspend"]),
	table.Integer("Active", cronJobStatusDoc["active"]),
	table.Text("Last Schedule", cronJobStatusDoc["lastScheduleTime"]),
	table.Age(),
	table.Wide(table.Text("Containers", "Names of each container in the template.")),
	table.Wide(table.Text("Images", "Images referenced by each container in the template.")),
	table.Wide(table.Text("Selector", batchv1.JobSpec{}.SwaggerDoc()["selector"])),
}

func cronJobRow(c *batchv1.CronJob) resource.Row {
	last, zone, suspend := table.None, table.None, table.Unset
	if c.Status.LastScheduleTime != nil {
		last = table.Since(*c.Status.LastScheduleTime)
	}
	if c.Spec.TimeZone != nil {
		zone = *c.Spec.TimeZone
	}
	if c.Spec.Suspend != nil {
		if suspend = "False"; *c.Spec.Suspend {
			suspend = "True"
		}
	}
	job := &c.Spec.JobTemplate.Spec
	names, images := podspec.NamesAndImages(job.Template.Spec.Containers)
	return resource.Row{Cells: []any{
		c.Name, c.Spec.Schedule, zone, suspend, int64(len(c.Status.Active)), last, table.Since(c.CreationTimestamp),
		names, images, metav1.FormatLabelSelector(job.Selector),
	}}
}
