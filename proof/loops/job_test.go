package loops_test

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/kubelet/hollow"
)

// job returns a job with pods that run briefly and end with an exit code.
func job(name string, parallelism, completions int32, exitCode int) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			Parallelism: &parallelism, Completions: &completions,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
					hollow.Prefix + "run-for": "50ms", hollow.Prefix + "exit-code": fmt.Sprint(exitCode),
				}},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever,
					Containers:    []corev1.Container{{Name: "main", Image: "image:1"}},
				},
			},
		},
	}
}

func (w *world) submit(j *batchv1.Job) {
	w.Helper()
	must(w.kube.BatchV1().Jobs(w.ns).Create(w.Context(), j, metav1.CreateOptions{}))(w)
}

// ended waits until a job has ended with this condition.
func (w *world) ended(name string, how batchv1.JobConditionType) *batchv1.Job {
	w.Helper()
	var j *batchv1.Job
	w.eventually(fmt.Sprintf("job %s is %s", name, how), func() (err error) {
		if j, err = w.kube.BatchV1().Jobs(w.ns).Get(w.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		for _, c := range j.Status.Conditions {
			if c.Type == how && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("%+v", j.Status)
	})
	return j
}

func TestJobs(t *testing.T) {
	all := start(t, millrace.Options{Nodes: 4})
	for name, test := range map[string]func(*world){
		"a job makes exactly as many pods as it needs completions": jobToCompletion,
		"an indexed job runs each index once":                      jobIndexed,
		"a job that keeps failing stops at its limit":              jobFailing,
		"an index that fails does not stop the others":             jobFailingIndex,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(all.within(t))
		})
	}
}

func jobToCompletion(w *world) {
	h := w.watch("")
	h.always(func(pods map[string]*corev1.Pod) error {
		running := 0
		for _, p := range pods {
			if active(p) {
				running++
			}
		}
		if running > 3 {
			return fmt.Errorf("%d pods run at a time", running)
		}
		return nil
	})
	w.submit(job("sum", 3, 10, 0))
	if j := w.ended("sum", batchv1.JobComplete); j.Status.Succeeded != 10 || j.Status.Failed != 0 {
		w.Errorf("%d succeeded, %d failed", j.Status.Succeeded, j.Status.Failed)
	}
	if created, deleted := h.totals(); created != 10 || deleted != 0 {
		w.Errorf("%d pods were made and %d deleted, want 10 and 0", created, deleted)
	}
}

func jobIndexed(w *world) {
	j := job("grid", 4, 6, 0)
	j.Spec.CompletionMode = ptr(batchv1.IndexedCompletion)
	w.submit(j)
	if done := w.ended("grid", batchv1.JobComplete); done.Status.CompletedIndexes != "0-5" {
		w.Errorf("completed are %q", done.Status.CompletedIndexes)
	}
	indexes := map[string]int{}
	for _, p := range w.pods("job-name=grid") {
		indexes[p.Labels[batchv1.JobCompletionIndexAnnotation]]++
	}
	for i := range 6 {
		if n := indexes[fmt.Sprint(i)]; n != 1 || len(indexes) != 6 {
			w.Errorf("index %d was run %d times, of indexes %v", i, n, indexes)
		}
	}
}

func jobFailing(w *world) {
	j := job("broken", 3, 3, 7)
	j.Spec.BackoffLimit = ptr(int32(2))
	w.submit(j)
	failed := w.ended("broken", batchv1.JobFailed)
	if failed.Status.Failed != 3 || failed.Status.Succeeded != 0 || failed.Status.Active != 0 {
		w.Errorf("%+v", failed.Status)
	}
	for _, c := range failed.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Reason != batchv1.JobReasonBackoffLimitExceeded {
			w.Errorf("it failed for %s", c.Reason)
		}
	}
}

func jobFailingIndex(w *world) {
	j := job("grid", 4, 4, 3)
	j.Spec.CompletionMode = ptr(batchv1.IndexedCompletion)
	j.Spec.BackoffLimitPerIndex = ptr(int32(0))
	w.submit(j)
	failed := w.ended("grid", batchv1.JobFailed)
	if failed.Status.FailedIndexes == nil || *failed.Status.FailedIndexes != "0-3" || failed.Status.Failed != 4 {
		w.Errorf("%+v", failed.Status)
	}
}
