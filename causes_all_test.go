package millrace_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/millracetest"
)

// saysNothing are changes by our own programs for which nothing is said, and why that is right.
var saysNothing = []string{
	"leases.coordination.k8s.io",    // a heartbeat: that time passes is its cause
	"events",                        // made beside the work, and written later
	"nodes ADDED", "nodes MODIFIED", // a node says of itself that it is there
}

func TestEveryChangeByALoopSaysWhy(t *testing.T) {
	c := withCauses(t, t.TempDir())
	kube := clientset(t, c)
	ctx, one := t.Context(), int32(1)
	labels := map[string]string{"app": "all"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	space := "all"
	check := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}}, metav1.CreateOptions{}))
	check(kube.CoreV1().ResourceQuotas(space).Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("50")}}}, metav1.CreateOptions{}))
	check(kube.AppsV1().Deployments(space).Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"},
		Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: selector, Template: template}}, metav1.CreateOptions{}))
	check(kube.AppsV1().StatefulSets(space).Create(ctx, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "s"},
		Spec: appsv1.StatefulSetSpec{Replicas: &one, Selector: selector, Template: template, ServiceName: "svc"}}, metav1.CreateOptions{}))
	check(kube.AppsV1().DaemonSets(space).Create(ctx, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "ds"},
		Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}, metav1.CreateOptions{}))
	job := template
	job.Labels, job.Spec.RestartPolicy = nil, corev1.RestartPolicyNever
	check(kube.BatchV1().Jobs(space).Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: batchv1.JobSpec{Template: job}}, metav1.CreateOptions{}))
	check(kube.BatchV1().CronJobs(space).Create(ctx, &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Spec: batchv1.CronJobSpec{Schedule: "@hourly", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: job}}}}, metav1.CreateOptions{}))
	check(kube.CoreV1().Services(space).Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "svc"},
		Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{}))
	check(kube.PolicyV1().PodDisruptionBudgets(space).Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b"},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector, MinAvailable: &intstr.IntOrString{IntVal: 1}}}, metav1.CreateOptions{}))
	check(kube.CoreV1().PersistentVolumeClaims(space).Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "v"},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}}}}, metav1.CreateOptions{}))
	millracetest.Wait(t, kube.AppsV1().Deployments(space), "d", func(d *appsv1.Deployment) bool { return d.Status.ReadyReplicas == 1 })
	millracetest.Wait(t, kube.AppsV1().StatefulSets(space), "s", func(s *appsv1.StatefulSet) bool { return s.Status.ReadyReplicas == 1 })
	millracetest.Wait(t, kube.AppsV1().DaemonSets(space), "ds", func(d *appsv1.DaemonSet) bool { return d.Status.NumberReady == 2 })
	millracetest.Wait(t, kube.PolicyV1().PodDisruptionBudgets(space), "b", func(b *policyv1.PodDisruptionBudget) bool { return b.Status.CurrentHealthy > 2 })
	millracetest.Wait(t, kube.CoreV1().ResourceQuotas(space), "q", func(q *corev1.ResourceQuota) bool { used := q.Status.Used["pods"]; return used.Value() > 3 })
	if err := kube.CoreV1().Namespaces().Delete(ctx, space, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	millracetest.WaitGone(t, kube.CoreV1().Namespaces(), space)

	silent, said := map[string]int{}, 0
	_, lists, err := kube.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		prefix := "/history/apis/" + list.GroupVersion + "/"
		if list.GroupVersion == "v1" {
			prefix = "/history/api/v1/"
		}
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || strings.Contains(list.GroupVersion, "metrics.k8s.io") {
				continue
			}
			var changes apiserver.ChangeList
			question(t, kube, prefix+r.Name+"?limit=1000", &changes)
			for _, v := range changes.Items {
				ours := strings.HasPrefix(v.User, "system:serviceaccount:kube-system:") || strings.HasPrefix(v.User, "system:node:") || v.User == "system:kube-scheduler" || v.User == "system:kube-controller-manager"
				switch {
				case !ours || slices.Contains(saysNothing, v.Resource) || slices.Contains(saysNothing, v.Resource+" "+v.Type):
				case v.Cause == nil || v.Cause.Loop == "" || len(v.Cause.Changes) == 0 && v.Cause.Told == "" && !v.Cause.Timer && !v.Cause.Resync:
					silent[fmt.Sprintf("%s %s %s %s: %+v", v.User, v.Verb, v.Resource, v.Type, v.Cause)]++
				default:
					said++
				}
			}
		}
	}
	for what, times := range silent {
		t.Errorf("%d times: %s", times, what)
	}
	if said < 50 {
		t.Errorf("only %d changes say why", said)
	}
}
