package access_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace"
)

// forbiddenRequests returns the requests that were answered with 403, from the server's metrics.
func (c *cluster) forbiddenRequests() (lines []string) {
	c.Helper()
	text, err := c.admin.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(c.ctx)
	c.must(err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "apiserver_request_total{") && strings.Contains(line, `code="403"`) {
			lines = append(lines, line)
		}
	}
	return lines
}

// withoutPosts removes creations, which a terminating namespace forbids to all users.
func withoutPosts(lines []string) []string {
	return slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, `verb="POST"`) })
}

func TestOwnComponentsNeedNoMoreThanTheirRoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, millrace.Options{Listen: "none", Nodes: 3})
		c.workloads()
		time.Sleep(2 * time.Minute) // in a synctest bubble: takes no time
		synctest.Wait()
		d, err := c.admin.AppsV1().Deployments("team").Get(c.ctx, "web", metav1.GetOptions{})
		c.must(err)
		if d.Status.AvailableReplicas != 3 {
			t.Errorf("the deployment has %+v", d.Status)
		}
		c.must(c.admin.CoreV1().Nodes().Delete(c.ctx, "hollow-1", metav1.DeleteOptions{}))
		c.must(c.admin.AppsV1().Deployments("team").Delete(c.ctx, "web", metav1.DeleteOptions{}))
		time.Sleep(10 * time.Minute)
		for _, line := range c.forbiddenRequests() {
			t.Errorf("refused: %s", line)
		}
		c.must(c.admin.CoreV1().Namespaces().Delete(c.ctx, "team", metav1.DeleteOptions{}))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n, err := c.admin.CoreV1().Namespaces().Get(c.ctx, "team", metav1.GetOptions{}); err == nil {
			t.Errorf("the namespace is still there: %+v", n.Status)
		}
		for _, line := range withoutPosts(c.forbiddenRequests()) {
			t.Errorf("refused at the end: %s", line)
		}
	})
}

// workloads creates objects that give most loops work.
func (c *cluster) workloads() {
	labels := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image:1"}}}}
	once := *template.DeepCopy()
	once.Labels, once.Spec.RestartPolicy = map[string]string{"app": "once"}, corev1.RestartPolicyNever
	selector := &metav1.LabelSelector{MatchLabels: labels}
	meta := metav1.ObjectMeta{Name: "web"}
	make := func(_ any, err error) { c.Helper(); c.must(err) }
	create := metav1.CreateOptions{}
	make(c.admin.CoreV1().Namespaces().Create(c.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, create))
	make(c.admin.CoreV1().ResourceQuotas("team").Create(c.ctx, &corev1.ResourceQuota{ObjectMeta: meta, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{"pods": resource.MustParse("100")}}}, create))
	make(c.admin.CoreV1().Services("team").Create(c.ctx, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}}}, create))
	time.Sleep(time.Second)
	make(c.admin.AppsV1().Deployments("team").Create(c.ctx, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)), Selector: selector, Template: template}}, create))
	daemon := *template.DeepCopy()
	daemon.Labels = map[string]string{"app": "daemon"}
	make(c.admin.AppsV1().DaemonSets("team").Create(c.ctx, &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: daemon.Labels}, Template: daemon}}, create))
	stateful := *template.DeepCopy()
	stateful.Labels = map[string]string{"app": "stateful"}
	make(c.admin.AppsV1().StatefulSets("team").Create(c.ctx, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(2)), ServiceName: "web", Selector: &metav1.LabelSelector{MatchLabels: stateful.Labels}, Template: stateful}}, create))
	make(c.admin.CoreV1().ReplicationControllers("team").Create(c.ctx, &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{
		Replicas: new(int32(1)), Selector: map[string]string{"app": "old"}, Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "old"}}, Spec: template.Spec}}}, create))
	make(c.admin.BatchV1().Jobs("team").Create(c.ctx, &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: once, TTLSecondsAfterFinished: new(int32(5))}}, create))
	make(c.admin.BatchV1().CronJobs("team").Create(c.ctx, &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{
		Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: once}}}}, create))
	budget := intstr.FromInt32(1)
	make(c.admin.PolicyV1().PodDisruptionBudgets("team").Create(c.ctx, &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: &budget, Selector: selector}}, create))
	make(c.admin.CoreV1().PersistentVolumeClaims("team").Create(c.ctx, &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}}}}, create))
}

func TestUsersAreWhoTheirKubeconfigSays(t *testing.T) {
	c := startAPIServer(t)
	config, err := c.User("alice", "dev")
	c.must(err)
	me, err := c.client(config).AuthenticationV1().SelfSubjectReviews().Create(c.ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	c.must(err)
	if got := fmt.Sprint(me.Status.UserInfo.Username, me.Status.UserInfo.Groups); got != "alice[dev system:authenticated]" {
		t.Error(got)
	}
}
