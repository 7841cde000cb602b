package job

import (
	"context"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/meter"
	"github.com/millrace/millrace/internal/controllers/internal/upkeep"
	"github.com/millrace/millrace/internal/controllers/owned"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

const name = "job-controller"

// Options configure the loop.
type Options struct {
	// Metrics counts what becomes of Jobs.
	Metrics *Metrics
}

func (o *Options) setDefaults() {
	if o.Metrics == nil {
		o.Metrics = NewMetrics(meter.New(nil))
	}
}

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	return loop.Entry{Name: name, Aliases: []string{"job"}, New: o.new}
}

type controller struct {
	metrics  *Metrics
	kube     kubernetes.Interface
	recorder loop.Recorder
	now      func() time.Time
	jobs     *informer.Shared[*batchv1.Job]
	pods     *informer.Shared[*podview.Pod]
	upkeep   upkeep.Pods

	mu    sync.Mutex // guards known
	known map[loop.Key]memory
}

// memory is the state of a Job that the API does not have.
type memory struct {
	pause pause
	// checked is set once a sync has made sure that the cached pods are not older than the cached Job.
	checked bool
	// delegated is set once the Job was counted as one of another controller.
	delegated bool
	// generation is that of the last sync, and held is since when this one is held back, see [controller.hold].
	generation int64
	held       time.Time
}

// trackedBy finds pods with the tracking finalizer, by the Job that owns them.
var trackedBy = informer.NewIndex(func(pod *podview.Pod) []string {
	if key, ok := jobOf(pod); ok && isTracked(pod) {
		return []string{key.String()}
	}
	return nil
})

func (o Options) new(c *loop.Clients) (loop.Runner, error) {
	o.setDefaults()
	j := &controller{
		metrics: o.Metrics, kube: c.Kube, recorder: c.Recorder, now: c.Now,
		jobs:  loop.Informer(c, informer.For(c.Kube.BatchV1().Jobs(""))),
		pods:  podview.Informer(c),
		known: map[loop.Key]memory{},
	}
	j.upkeep = upkeep.Pods{Kube: c.Kube, Recorder: c.Recorder, Cache: j.pods}
	j.pods.AddIndex(trackedBy)
	return &loop.Loop{
		Name: name, Clients: c, Workers: 8, Sync: j.sync,
		Watches: []loop.Watch{loop.Self(j.jobs), loop.Changes(j.pods, j.podChanged)},
	}, nil
}

func jobOf(pod *podview.Pod) (loop.Key, bool) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != kind.Kind {
		return loop.Key{}, false
	}
	return loop.Key{Namespace: pod.Namespace, Name: ref.Name}, true
}

// podChanged counts the end of a pod, and returns the Jobs that a change of it concerns.
func (c *controller) podChanged(before, after *podview.Pod) (keys []loop.Key) {
	c.observeEnd(before, after)
	for _, pod := range []*podview.Pod{before, after} {
		if pod != nil {
			keys = append(keys, c.concerned(pod)...)
		}
	}
	return keys
}

// concerned returns the pod's Job, or those that might adopt it.
func (c *controller) concerned(pod *podview.Pod) []loop.Key {
	if key, ok := jobOf(pod); ok {
		return []loop.Key{key}
	}
	if !owned.Orphan(pod) {
		return nil
	}
	return owned.MatchingOwners(c.jobs, pod, func(job *batchv1.Job) *metav1.LabelSelector { return job.Spec.Selector })
}

func (c *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	job, ok := c.jobs.Lookup(key)
	if err := c.freeOrphans(ctx, key, job); err != nil {
		return loop.Result{}, err
	}
	if !ok {
		c.forget(key)
		return loop.Result{}, nil
	}
	if by := job.Spec.ManagedBy; by != nil && *by != controllerName {
		if !c.recall(key).delegated {
			c.remember(key, memory{delegated: true})
			c.metrics.Delegated(*by)
		}
		return loop.Result{}, nil
	}
	pods, err := c.claim(ctx, key, job)
	if err != nil {
		return loop.Result{}, err
	}
	if finished(job) {
		return loop.Result{}, c.untrack(ctx, tracked(pods))
	}
	if wait := c.hold(key, job, pods); wait > 0 {
		return loop.Result{After: wait}, nil
	}
	began := time.Now()
	p, err := c.proceed(ctx, key, job, pods)
	c.metrics.Synced(modeOf(job), p.action(), err, time.Since(began))
	if err != nil {
		return loop.Result{}, err
	}
	return loop.Result{After: p.wait}, nil
}

// proceed makes the plan for a Job that has not ended, and carries it out. If there is no plan, the error says why.
func (c *controller) proceed(ctx context.Context, key loop.Key, job *batchv1.Job, pods []*podview.Pod) (*plan, error) {
	remembered := c.recall(key)
	if !remembered.checked {
		var err error
		if pods, err = c.recheck(ctx, pods); err != nil {
			return nil, err
		}
	}
	p := assess(job, pods, remembered.pause, c.now())
	if err := c.writeStatus(ctx, key, p); err != nil {
		return p, err
	}
	c.remember(key, memory{pause: p.pause, checked: true, generation: job.Generation})
	return p, c.carryOut(ctx, p)
}

// freeOrphans removes the finalizer from pods whose Job is gone.
func (c *controller) freeOrphans(ctx context.Context, key loop.Key, job *batchv1.Job) error {
	var orphans []*podview.Pod
	for pod := range c.pods.By(trackedBy, key.String()) {
		if job == nil || pod.ControllerUID() != job.UID {
			orphans = append(orphans, pod)
		}
	}
	if len(orphans) == 0 {
		return nil
	}
	// The cache may be behind: a Job with that UID may just have been created.
	live, err := c.kube.BatchV1().Jobs(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("look for the job of tracked pods: %w", err)
	}
	if err == nil {
		kept := orphans[:0]
		for _, pod := range orphans {
			if pod.ControllerUID() != live.UID {
				kept = append(kept, pod)
			}
		}
		orphans = kept
	}
	return c.untrack(ctx, orphans)
}

// recheck reads each pod that is about to be counted from the server when this process handles a Job for the first
// time. Another process may have counted the pod and removed its finalizer, and our caches of pods and of Jobs were
// filled at different times. After that we know our own writes.
func (c *controller) recheck(ctx context.Context, pods []*podview.Pod) ([]*podview.Pod, error) {
	out := make([]*podview.Pod, 0, len(pods))
	for _, pod := range pods {
		if isTracked(pod) && !pod.Active() {
			live, err := c.read(ctx, pod)
			if err != nil {
				return nil, fmt.Errorf("check pod %s before counting it: %w", informer.KeyOf(pod), err)
			}
			if live == nil || live.UID != pod.UID {
				continue
			}
			pod = podview.Of(live)
		}
		out = append(out, pod)
	}
	return out, nil
}

// read reads the pod that has this pod's name from the server. It is nil if there is none. Kubernetes' role for this
// loop lets it list pods, and not get one.
func (c *controller) read(ctx context.Context, pod *podview.Pod) (*corev1.Pod, error) {
	named := fields.OneTermEqualSelector(metav1.ObjectNameField, pod.Name).String()
	found, err := c.kube.CoreV1().Pods(pod.Namespace).List(ctx, metav1.ListOptions{FieldSelector: named})
	if err != nil || len(found.Items) == 0 {
		return nil, err
	}
	return &found.Items[0], nil
}

func (c *controller) claim(ctx context.Context, key loop.Key, job *batchv1.Job) ([]*podview.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	switch {
	case err != nil:
		return nil, loop.Terminal(fmt.Errorf("selector of job %s: %w", key, err))
	case selector.Empty():
		return nil, loop.Terminal(fmt.Errorf("selector of job %s is empty: it would select all pods or none", key))
	}
	claims := loop.Claims[*podview.Pod]{
		Owner: job, Kind: kind, Selector: selector,
		Live: func(ctx context.Context) (metav1.Object, error) {
			return c.kube.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
		},
		Patch: func(ctx context.Context, pod *podview.Pod, patch []byte) error {
			return c.handOver(ctx, pod, patch)
		},
	}
	return claims.Claim(ctx, func(yield func(*podview.Pod) bool) {
		for pod := range owned.Candidates(c.pods, job, labels.Selector(selector)) {
			if (pod.Active() || !owned.Orphan(pod)) && !yield(pod) {
				return
			}
		}
	})
}

func (c *controller) writeStatus(ctx context.Context, key loop.Key, p *plan) error {
	if !apiequality.Semantic.DeepEqual(&p.job.Status, &p.status) {
		changed := *p.job
		changed.Status = p.status
		written, err := c.kube.BatchV1().Jobs(changed.Namespace).UpdateStatus(ctx, &changed, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("write status of job %s: %w", key, err)
		}
		loop.Wrote(ctx, c.jobs, written.ResourceVersion)
		c.measure(p)
	}
	for _, n := range p.notes {
		c.recorder.Eventf(p.job, n.level, n.reason, "%s", n.message)
	}
	return nil
}

// carryOut does what may be done once the status is written.
func (c *controller) carryOut(ctx context.Context, p *plan) error {
	if err := c.untrack(ctx, p.untrack); err != nil {
		return err
	}
	if err := c.remove(ctx, p.job, p.remove); err != nil {
		return err
	}
	return c.create(ctx, p)
}

func (c *controller) recall(key loop.Key) memory {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[key]
}

func (c *controller) remember(key loop.Key, m memory) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[key] = m
}

func (c *controller) forget(key loop.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, key)
}

func finished(job *batchv1.Job) bool {
	_, ok := finish(job)
	return ok
}

// finish returns the condition of a finished Job.
func finish(job *batchv1.Job) (*batchv1.JobCondition, bool) {
	for i := range job.Status.Conditions {
		c := &job.Status.Conditions[i]
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c, true
		}
	}
	return nil, false
}

func tracked(pods []*podview.Pod) []*podview.Pod {
	var out []*podview.Pod
	for _, pod := range pods {
		if isTracked(pod) {
			out = append(out, pod)
		}
	}
	return out
}
