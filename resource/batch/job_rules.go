package batch

import (
	batchv1 "k8s.io/api/batch/v1"

	"github.com/millrace/millrace/resource"
)

var jobRules, jobStatusRules resource.Rules[*batchv1.Job]
var cronJobRules, cronJobStatusRules resource.Rules[*batchv1.CronJob]
