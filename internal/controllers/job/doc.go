// Package job runs pods until enough of them have succeeded, and deletes finished Jobs after their TTL.
//
// Guarantees, from any state and wherever an earlier sync has stopped:
//
//   - Counted: every pod of a Job that ends is counted once, as a success or a
//     failure. A pod has a finalizer until it is counted: first its UID is added to the
//     status, then the finalizer is removed, then the UID becomes a number. No crash in
//     between loses or doubles one.
//   - Bounded: there are never more active pods than parallelism, nor than
//     completions left; an indexed Job has at most one for each index.
//   - Patient: a pod that is being deleted counts as failed a second later, unless it
//     has ended by then; it may still succeed.
//   - Final: a Job that is complete or failed stays so, and gets that condition only
//     when none of its pods runs any more. Before that it has an interim condition.
//
// The back-off between failures does not survive a restart of the loop.
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
