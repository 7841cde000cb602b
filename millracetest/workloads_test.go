package millracetest_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

// All loops, the scheduler and the kubelets together, for an hour.
func TestAllWorkloadsRunOnHollowNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := millracetest.Clientset(t, millracetest.Start(t, millrace.Options{Listen: "none", Nodes: 3}))
		labels := map[string]string{"app": "web"}
		template := func(kind string) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
			own := map[string]string{"kind": kind, "app": labels["app"]}
			return &metav1.LabelSelector{MatchLabels: own}, corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: own},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.example/web:1"}}},
			}
		}
		ds, ss := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent"}}, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}}
		ds.Spec.Selector, ds.Spec.Template = template("daemon")
		ss.Spec.Selector, ss.Spec.Template = template("stateful")
		ss.Spec.Replicas = new(int32)
		*ss.Spec.Replicas = 2
		cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "tick"}, Spec: batchv1.CronJobSpec{Schedule: "*/20 * * * *"}}
		_, cron.Spec.JobTemplate.Spec.Template = template("cron")
		cron.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		_, err := kube.AppsV1().DaemonSets("default").Create(t.Context(), ds, metav1.CreateOptions{})
		if err == nil {
			_, err = kube.AppsV1().StatefulSets("default").Create(t.Context(), ss, metav1.CreateOptions{})
		}
		if err == nil {
			_, err = kube.BatchV1().CronJobs("default").Create(t.Context(), cron, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour + time.Minute)
		synctest.Wait()
		ds, _ = kube.AppsV1().DaemonSets("default").Get(t.Context(), "agent", metav1.GetOptions{})
		ss, _ = kube.AppsV1().StatefulSets("default").Get(t.Context(), "db", metav1.GetOptions{})
		cron, _ = kube.BatchV1().CronJobs("default").Get(t.Context(), "tick", metav1.GetOptions{})
		if ds.Status.NumberAvailable != 3 || ss.Status.AvailableReplicas != 2 || cron.Status.LastSuccessfulTime == nil {
			t.Errorf("%+v\n%+v\n%+v", ds.Status, ss.Status, cron.Status)
		}
		pods, err := kube.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "kind=daemon"})
		if err != nil {
			t.Fatal(err)
		}
		nodes := map[string]bool{}
		for _, p := range pods.Items {
			nodes[p.Spec.NodeName] = true
			if !strings.HasPrefix(p.Name, "agent-") {
				t.Errorf("pod %s", p.Name)
			}
		}
		if len(nodes) != 3 {
			t.Errorf("the daemon runs on %v", nodes)
		}
	})
}
