package job

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

const ttlName = "ttl-after-finished-controller"

// TTLEntry is the loop that deletes finished Jobs after their TTL, without metrics.
var TTLEntry = Options{}.TTLEntry()

// TTLEntry is the loop that deletes finished Jobs after their TTL.
func (o Options) TTLEntry() loop.Entry {
	return loop.Entry{Name: ttlName, Aliases: []string{"ttl-after-finished"}, New: o.newTTL}
}

func (o Options) newTTL(c *loop.Clients) (loop.Runner, error) {
	o.setDefaults()
	jobs := loop.Informer(c, informer.For(c.Kube.BatchV1().Jobs("")))
	sync := func(ctx context.Context, key loop.Key) (loop.Result, error) {
		job, ok := jobs.Lookup(key)
		if !ok || job.DeletionTimestamp != nil {
			return loop.Result{}, nil
		}
		left, ends := timeLeft(job, c.Now())
		if !ends || left > 0 {
			return loop.Result{After: left}, nil
		}
		// The TTL may have been extended at the last moment, so the version is a precondition.
		foreground := metav1.DeletePropagationForeground
		err := c.Kube.BatchV1().Jobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
			PropagationPolicy: &foreground,
			Preconditions:     &metav1.Preconditions{UID: &job.UID, ResourceVersion: &job.ResourceVersion},
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return loop.Result{}, fmt.Errorf("delete finished job %s: %w", key, err)
		}
		if err == nil {
			o.Metrics.Expired(-left)
		}
		return loop.Result{}, nil
	}
	return &loop.Loop{Name: ttlName, Clients: c, Workers: 5, Sync: sync, Watches: []loop.Watch{loop.Self(jobs)}}, nil
}

// timeLeft returns how long a finished Job is kept. ends is false if it is kept for ever.
func timeLeft(job *batchv1.Job, now time.Time) (left time.Duration, ends bool) {
	c, ok := finish(job)
	if !ok || job.Spec.TTLSecondsAfterFinished == nil {
		return 0, false
	}
	end := c.LastTransitionTime.Add(time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second)
	return end.Sub(now), true
}
