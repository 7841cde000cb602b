package job

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/millrace/millrace/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// holdTime is how long after a change of its pods Kubernetes syncs a Job. We wait only where it makes a difference.
const holdTime = time.Second

// hold returns for how long a sync of a Job is held back, because a pod of it is being deleted that has not ended. The pod would be
// counted as failed, and its kubelet may be about to say that it has succeeded. A Job whose spec has changed is not held back.
//
// The time runs from the first such pod that a sync finds: a Job whose pods are deleted one after the other is synced every second.
func (j *controller) hold(key loop.Key, job *batchv1.Job, pods []*podview.Pod) time.Duration {
	m := j.recall(key)
	undecided := slices.ContainsFunc(pods, func(pod *podview.Pod) bool {
		return isTracked(pod) && pod.Terminating() && hasFailed(job, pod)
	})
	if !undecided || m.generation != 0 && m.generation != job.Generation {
		return 0
	}
	if m.held.IsZero() {
		m.held = j.now()
		j.remember(key, m)
	}
	return m.held.Add(holdTime).Sub(j.now())
}
