package deployment_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/controllers/deployment"
	"github.com/millrace/millrace/controllers/internal/testapi"
	"github.com/millrace/millrace/controllers/replicaset"
	"github.com/millrace/millrace/loop"
)

func TestDeploymentBecomesReadyPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t)
		create(t, s, declared("web", 12))
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		d := testapi.All[appsv1.Deployment](s.server, "deployments")[0]
		if d.Status.ReadyReplicas != 12 || d.Status.AvailableReplicas != 12 || d.Status.ObservedGeneration != 1 {
			t.Fatalf("status %+v", d.Status)
		}
		if got := len(testapi.All[corev1.Pod](s.server, "pods")); got != 12 {
			t.Fatalf("%d pods", got)
		}
		if d.Annotations["deployment.kubernetes.io/revision"] != "1" {
			t.Fatalf("annotations %v", d.Annotations)
		}
		for _, c := range d.Status.Conditions {
			t.Log(c.Type, c.Status, c.Reason, c.Message)
		}
		for _, e := range testapi.All[corev1.Event](s.server, "events") {
			t.Log(e.Reason, e.Message, e.Count)
		}
	})
}

type cluster struct {
	server  *testapi.Server
	clients *loop.Clients
	nodes   *testapi.Nodes
}

// start runs the loops from deployments to pods, and nodes.
func start(t *testing.T) *cluster {
	server := testapi.New()
	c := &cluster{server: server, clients: server.Clients(), nodes: &testapi.Nodes{Server: server, Count: 3}}
	var runners []loop.Runner
	for _, entry := range []loop.Entry{deployment.Entry, replicaset.Entry} {
		r, err := entry.New(c.clients.Named(entry.Name))
		if err != nil {
			t.Fatal(err)
		}
		runners = append(runners, r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- loop.Run(ctx, c.clients, append(runners, c.nodes)...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c
}

func declared(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	deadline, history := int32(600), int32(10)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image:1"}}},
			},
			ProgressDeadlineSeconds: &deadline,
			RevisionHistoryLimit:    &history,
		},
	}
}

func create(t *testing.T, c *cluster, d *appsv1.Deployment) {
	t.Helper()
	if _, err := c.clients.Kube.AppsV1().Deployments(d.Namespace).Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(fmt.Errorf("create: %w", err))
	}
}
