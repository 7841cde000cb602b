package millracetest_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/millracetest"
	"github.com/millrace/millrace/watch"
)

func TestADeploymentComesUpOnHollowNodes(t *testing.T) {
	kube := millracetest.Clientset(t, millracetest.Start(t, millrace.Options{Nodes: 2}))
	labels := map[string]string{"app": "web"}
	replicas := int32(3)
	_, err := kube.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "registry.example/web:1"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	deployments, err := informer.For(kube.AppsV1().Deployments("default")).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	last, err := watch.Until(t.Context(), deployments, func(e watch.Event[*appsv1.Deployment]) (bool, error) {
		return e.Object.Status.AvailableReplicas == replicas, nil
	})
	if err != nil {
		t.Fatalf("%v; last seen: %+v", err, last.Object)
	}
}
