// Package job runs pods until enough of them have succeeded, and deletes
// finished jobs when their time is over.
//
// What is guaranteed, from whatever state and wherever an earlier pass was cut off:
//
//   - Counted: every pod of a job that ends is counted once, as a success or a
//     failure. A pod carries a finalizer until it is counted: first the status takes in its
//     uid, then the finalizer goes, then the uid becomes a number. No crash in between
//     loses or doubles one.
//   - Bounded: there are never more pods at work than parallelism, nor than there are
//     completions left; an indexed job has at most one for each index.
//   - Final: a job that is complete or failed stays so, and says so only when none of
//     its pods runs any more. Before, it says what it will be.
//
// What may not be assumed: that the pause between failures survives a restart of
// the loop.
package job

import batchv1 "k8s.io/api/batch/v1"

var kind = batchv1.SchemeGroupVersion.WithKind("Job")

const (
	finalizer      = batchv1.JobTrackingFinalizer
	indexKey       = batchv1.JobCompletionIndexAnnotation
	failureKey     = batchv1.JobIndexFailureCountAnnotation
	ignoredKey     = batchv1.JobIndexIgnoredFailureCountAnnotation
	controllerName = "kubernetes.io/job-controller"
)
