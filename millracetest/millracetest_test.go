package millracetest_test

import (
	"testing"
	"testing/synctest"
	"time"

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

func TestADeploymentComesUpInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		kube := millracetest.Clientset(t, millracetest.Start(t, millrace.Options{Listen: "none", Nodes: 2}))
		replicas := int32(3)
		labels := map[string]string{"app": "web"}
		_, err := kube.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: appsv1.DeploymentSpec{
				Replicas: &replicas, MinReadySeconds: 540,
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
		available := func() int32 {
			synctest.Wait()
			d, err := kube.AppsV1().Deployments("default").Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return d.Status.AvailableReplicas
		}
		time.Sleep(8 * time.Minute)
		if n := available(); n != 0 {
			t.Errorf("%d are available after %v", n, time.Since(began))
		}
		time.Sleep(2 * time.Minute)
		if n := available(); n != 3 {
			t.Errorf("%d are available after %v", n, time.Since(began))
		}
	})
}
