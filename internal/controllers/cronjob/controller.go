package cronjob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/meter"
	"github.com/millrace/millrace/internal/controllers/owned"
	"github.com/millrace/millrace/loop"
)

const name = "cronjob-controller"

// Options configure the loop.
type Options struct {
	// Metrics measures when Jobs are started.
	Metrics *Metrics
}

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	return loop.Entry{Name: name, Aliases: []string{"cronjob"}, New: o.new}
}

var kind = batchv1.SchemeGroupVersion.WithKind("CronJob")

type controller struct {
	metrics  *Metrics
	kube     kubernetes.Interface
	recorder loop.Recorder
	now      func() time.Time
	crons    *informer.Shared[*batchv1.CronJob]
	jobs     *informer.Shared[*batchv1.Job]
}

func (o Options) new(c *loop.Clients) (loop.Runner, error) {
	if o.Metrics == nil {
		o.Metrics = NewMetrics(meter.New(nil))
	}
	k := &controller{
		metrics: o.Metrics, kube: c.Kube, recorder: c.Recorder, now: c.Now,
		crons: loop.Informer(c, informer.For(c.Kube.BatchV1().CronJobs(""))),
		jobs:  owned.Index(loop.Informer(c, informer.For(c.Kube.BatchV1().Jobs("")))),
	}
	return &loop.Loop{
		Name: name, Clients: c, Workers: 5, Sync: k.sync,
		Watches: []loop.Watch{loop.Self(k.crons), loop.Owned(k.jobs, kind)},
	}, nil
}

// oneSync is one sync of a CronJob. It owns its copy.
type oneSync struct {
	*controller
	key  loop.Key
	cron *batchv1.CronJob
	jobs []*batchv1.Job // the Jobs of this CronJob
	now  time.Time
}

// sync handles one CronJob.
func (c *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	found, ok := c.crons.Lookup(key)
	if !ok {
		return loop.Result{}, nil
	}
	s := &oneSync{controller: c, key: key, cron: found.DeepCopy(), now: c.now()}
	s.jobs = slices.Collect(owned.By(c.jobs, found))
	failure := s.clean(ctx) // first, as in Kubernetes: of a Job that is not kept no end is reported
	if err := s.takeStock(ctx); err != nil {
		return loop.Result{}, errors.Join(failure, err)
	}
	after, err := s.schedule(ctx)
	failure = errors.Join(failure, err)
	if !apiequality.Semantic.DeepEqual(s.cron.Status, found.Status) {
		failure = errors.Join(failure, s.writeStatus(ctx))
	}
	return loop.Result{After: after}, failure
}

func (s *oneSync) writeStatus(ctx context.Context) error {
	written, err := s.kube.BatchV1().CronJobs(s.cron.Namespace).UpdateStatus(ctx, s.cron, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("write status of cron job %s: %w", s.key, err)
	}
	loop.Wrote(ctx, s.crons, written.ResourceVersion)
	return nil
}

// takeStock updates the list of active Jobs.
func (s *oneSync) takeStock(ctx context.Context) error {
	for _, j := range s.jobs {
		end, ended := ending(j)
		active := s.active(j)
		switch {
		case !active && !ended:
			if j.DeletionTimestamp == nil {
				s.recorder.Eventf(s.cron, corev1.EventTypeWarning, "UnexpectedJob", "Saw a job that the controller did not create or forgot: %s", j.Name)
			}
		case active && ended:
			s.forget(j)
			s.recorder.Eventf(s.cron, corev1.EventTypeNormal, "SawCompletedJob", "Saw completed job: %s, condition: %v", j.Name, end)
		}
		last := s.cron.Status.LastSuccessfulTime
		if at := j.Status.CompletionTime; end == batchv1.JobComplete && at != nil && (last == nil || at.After(last.Time)) {
			s.cron.Status.LastSuccessfulTime = at
		}
	}
	for _, ref := range slices.Clone(s.cron.Status.Active) {
		if slices.ContainsFunc(s.jobs, func(j *batchv1.Job) bool { return j.UID == ref.UID }) {
			continue
		}
		j, err := s.kube.BatchV1().Jobs(s.cron.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && j.UID != ref.UID:
			s.recorder.Eventf(s.cron, corev1.EventTypeNormal, "MissingJob", "Active job went missing: %v", ref.Name)
			s.forget(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: ref.UID}})
		case err != nil:
			return fmt.Errorf("look for the active job %s: %w", ref.Name, err)
		}
	}
	return nil
}

// ending returns how a Job has finished, if it has.
func ending(j *batchv1.Job) (batchv1.JobConditionType, bool) {
	for _, c := range j.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return c.Type, true
		}
	}
	return "", false
}

func (s *oneSync) active(j *batchv1.Job) bool {
	return slices.ContainsFunc(s.cron.Status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == j.UID })
}

func (s *oneSync) forget(j *batchv1.Job) {
	s.cron.Status.Active = slices.DeleteFunc(s.cron.Status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == j.UID })
}

// clean deletes the oldest finished Jobs beyond the history limits.
func (s *oneSync) clean(ctx context.Context) error {
	kept := map[batchv1.JobConditionType]*int32{
		batchv1.JobComplete: s.cron.Spec.SuccessfulJobsHistoryLimit, batchv1.JobFailed: s.cron.Spec.FailedJobsHistoryLimit,
	}
	var all error
	for end, limit := range kept {
		var ended []*batchv1.Job
		for _, j := range s.jobs {
			if how, ok := ending(j); ok && how == end {
				ended = append(ended, j)
			}
		}
		if limit == nil || len(ended) <= int(*limit) {
			continue
		}
		slices.SortFunc(ended, earlierFirst)
		for _, j := range ended[:len(ended)-int(*limit)] {
			all = errors.Join(all, s.remove(ctx, j))
		}
	}
	return all
}

func earlierFirst(a, b *batchv1.Job) int {
	began := func(j *batchv1.Job) time.Time {
		if j.Status.StartTime != nil {
			return j.Status.StartTime.Time
		}
		return j.CreationTimestamp.Time
	}
	if c := began(a).Compare(began(b)); c != 0 {
		return c
	}
	return slices.Compare([]string{a.Name}, []string{b.Name})
}
