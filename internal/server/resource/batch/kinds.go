// Package batch describes the kinds of the group batch.
package batch

import (
	batchv1 "k8s.io/api/batch/v1"

	"github.com/millrace/millrace/internal/server/resource"
)

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind { return []*resource.Kind{CronJobs(), Jobs()} }

const group, version = batchv1.GroupName, "v1"

func orNew[T any](v **T, otherwise T) {
	if *v == nil {
		*v = &otherwise
	}
}
