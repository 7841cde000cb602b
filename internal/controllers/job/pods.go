package job

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/owned"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// handOver sends a patch that adopts or releases a pod. An adopted pod is counted from then on, a released one no
// longer.
func (c *controller) handOver(ctx context.Context, pod *podview.Pod, patch []byte) error {
	adopted := owned.Orphan(pod)
	if err := c.upkeep.Patch(ctx, pod, patch); err != nil {
		return err
	}
	if !adopted {
		return c.untrack(ctx, tracked([]*podview.Pod{pod}))
	}
	return c.upkeep.Patch(ctx, pod, fmt.Appendf(nil, `{"metadata":{"uid":%q,"finalizers":[%q]}}`, pod.UID, finalizer))
}

// untrack removes the finalizer from pods.
func (c *controller) untrack(ctx context.Context, pods []*podview.Pod) error {
	_, err := loop.SlowStart(ctx, len(pods), func(ctx context.Context, i int) error {
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"$deleteFromPrimitiveList/finalizers":[%q]}}`, pods[i].UID, finalizer)
		err := c.upkeep.Patch(ctx, pods[i], patch)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil // it is gone or was replaced
		}
		return err
	})
	return err
}

// remove deletes unwanted pods. They are not counted.
func (c *controller) remove(ctx context.Context, job *batchv1.Job, pods []*podview.Pod) error {
	if err := c.untrack(ctx, tracked(pods)); err != nil {
		return err
	}
	return c.upkeep.Delete(ctx, job, pods)
}

func (c *controller) create(ctx context.Context, p *plan) error {
	if len(p.create) == 0 {
		return nil
	}
	failures := map[int]*podview.Pod{}
	if perIndex(p.job) {
		failures = p.lastFailures()
	}
	why := p.why()
	_, err := loop.SlowStart(ctx, len(p.create), func(ctx context.Context, i int) error {
		err := c.upkeep.Create(ctx, p.job, podFor(p.job, p.create[i], failures[p.create[i]]))
		c.metrics.Created(why, err)
		return err
	})
	return err
}

// podFor returns the pod for an index. last is the pod of that index that failed before.
func podFor(job *batchv1.Job, index int, last *podview.Pod) *corev1.Pod {
	t := job.Spec.Template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: job.Name + "-", Namespace: job.Namespace,
			Labels: t.Labels, Annotations: t.Annotations, Finalizers: append(slices.Clone(t.Finalizers), finalizer),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, kind)},
		},
		Spec: t.Spec,
	}
	if index == noIndex {
		return pod
	}
	text := strconv.Itoa(index)
	pod.GenerateName = job.Name + "-" + text + "-"
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, indexKey, text)
	metav1.SetMetaDataLabel(&pod.ObjectMeta, indexKey, text)
	if pod.Spec.Hostname = job.Name + "-" + text; len(pod.Spec.Hostname) > 63 {
		pod.Spec.Hostname = pod.Spec.Hostname[:63-len(text)-1] + "-" + text
	}
	tellIndex(pod.Spec.InitContainers)
	tellIndex(pod.Spec.Containers)
	if job.Spec.BackoffLimitPerIndex != nil {
		maps.Copy(pod.Annotations, failureCounts(job, last))
	}
	return pod
}

// failureCounts returns the annotations with the failures of a pod's index.
func failureCounts(job *batchv1.Job, last *podview.Pod) map[string]string {
	failed, ignored := 0, 0
	if last != nil {
		failed, ignored = annotated(last, failureKey), annotated(last, ignoredKey)
		if rule(job, last).counts {
			failed++
		} else {
			ignored++
		}
	}
	out := map[string]string{failureKey: strconv.Itoa(failed)}
	if ignored > 0 {
		out[ignoredKey] = strconv.Itoa(ignored)
	}
	return out
}

const indexVariable = "JOB_COMPLETION_INDEX"

func tellIndex(containers []corev1.Container) {
	for i := range containers {
		c := &containers[i]
		if slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == indexVariable }) {
			continue
		}
		c.Env = append(c.Env, corev1.EnvVar{Name: indexVariable, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + indexKey + "']"},
		}})
	}
}
