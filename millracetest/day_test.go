package millracetest_test

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

// A day passes while this test runs for seconds: 24 Jobs begin and end, and each goes an hour after its end.
func TestACronJobRunsAllDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		kube := millracetest.Clientset(t, millracetest.Start(t, millrace.Options{Listen: "none", Nodes: 1}))
		ttl := int32(3600)
		cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "hourly"}, Spec: batchv1.CronJobSpec{Schedule: "30 * * * *"}}
		cron.Spec.JobTemplate.Spec.TTLSecondsAfterFinished = &ttl
		cron.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "registry.example/report:1"}},
		}
		if _, err := kube.BatchV1().CronJobs("default").Create(t.Context(), cron, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24*time.Hour - time.Since(began))
		synctest.Wait()
		events, err := kube.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=SuccessfulCreate,involvedObject.kind=CronJob"})
		if err != nil {
			t.Fatal(err)
		}
		cron, err = kube.BatchV1().CronJobs("default").Get(t.Context(), "hourly", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		last := cron.Status.LastScheduleTime
		if last == nil || !last.Time.Equal(began.Add(23*time.Hour+30*time.Minute)) {
			t.Errorf("it ran last at %v (began %v)", last, began)
		}
		jobs, err := kube.BatchV1().Jobs("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(jobs.Items) != 1 {
			t.Errorf("%d jobs are left, want the last one: those before have gone an hour after their end (%d events)", len(jobs.Items), len(events.Items))
		}
	})
}

// A node that only lives costs a renewal of its lease each 36 s, and a status each 5 minutes, which is read before.
// Nobody else asks anything.
func TestAnHourOfANodeCostsFewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := millracetest.Clientset(t, millracetest.Start(t, millrace.Options{Listen: "none", Nodes: 1}))
		time.Sleep(10 * time.Minute)
		before := requests(t, kube)
		time.Sleep(time.Hour)
		const want = 100 + 2*12
		if n := requests(t, kube) - before; n > want+10 {
			t.Errorf("%v requests in an hour, want some %d", n, want)
		}
	})
}

// requests is how many requests the server has answered.
func requests(t *testing.T, kube kubernetes.Interface) float64 {
	t.Helper()
	text, err := kube.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "apiserver_request_total{") || strings.Contains(line, `verb="WATCH"`) {
			continue
		}
		_, count, _ := strings.Cut(line, "} ")
		n, err := strconv.ParseFloat(strings.TrimSpace(count), 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}
