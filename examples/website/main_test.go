package main

import (
	"context"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/loop"
)

func site(name string, files map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-of-the-site", Labels: map[string]string{"website": ""}},
		Data:       files,
	}
}

// operate runs the operator on a fake server while f runs.
func operate(t *testing.T, f func(t *testing.T, kube *fake.Clientset)) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		clients := loop.ClientsFor(kube).Named("website")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- loop.Run(ctx, clients, websites(clients)) }()
		synctest.Wait() // the fake server forgets what happens between a list and a watch
		f(t, kube)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func create(t *testing.T, kube *fake.Clientset, m *corev1.ConfigMap) {
	t.Helper()
	if _, err := kube.CoreV1().ConfigMaps(m.Namespace).Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func deployment(t *testing.T, kube *fake.Clientset) *appsv1.Deployment {
	t.Helper()
	synctest.Wait()
	d, err := kube.AppsV1().Deployments("ns").Get(t.Context(), "blog", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestALabelledConfigMapBecomesADeploymentThatItOwns(t *testing.T) {
	operate(t, func(t *testing.T, kube *fake.Clientset) {
		create(t, kube, site("blog", map[string]string{"index.html": "hello"}))
		unlabelled := site("settings", nil)
		unlabelled.Labels = nil
		create(t, kube, unlabelled)
		if d := deployment(t, kube); !metav1.IsControlledBy(d, site("blog", nil)) {
			t.Errorf("owners are %v", d.OwnerReferences)
		}
		all, err := kube.AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(all.Items) != 1 {
			t.Errorf("%d deployments (%v), want 1", len(all.Items), err)
		}
		events, err := kube.CoreV1().Events("ns").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(events.Items) != 1 || events.Items[0].Reason != "Published" || events.Items[0].Source.Component != "website" {
			t.Errorf("events are %v (%v)", events.Items, err)
		}
	})
}

func TestNewContentRollsOutAndChangesByHandArePutRight(t *testing.T) {
	operate(t, func(t *testing.T, kube *fake.Clientset) {
		create(t, kube, site("blog", map[string]string{"index.html": "hello"}))
		before := deployment(t, kube)
		if _, err := kube.CoreV1().ConfigMaps("ns").Update(t.Context(), site("blog", map[string]string{"index.html": "bye"}), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		after := deployment(t, kube)
		if before.Spec.Template.Annotations["content"] == after.Spec.Template.Annotations["content"] {
			t.Error("new content changed nothing")
		}
		broken := after.DeepCopy()
		broken.Spec.Template.Spec.Containers[0].Image = "apache"
		if _, err := kube.AppsV1().Deployments("ns").Update(t.Context(), broken, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if image := deployment(t, kube).Spec.Template.Spec.Containers[0].Image; image != "nginx:1.29" {
			t.Errorf("the image is %s", image)
		}
		if err := kube.AppsV1().Deployments("ns").Delete(t.Context(), "blog", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		deployment(t, kube) // is there again
	})
}

func TestADeploymentOfSomebodyElseIsLeftAlone(t *testing.T) {
	operate(t, func(t *testing.T, kube *fake.Clientset) {
		theirs := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "blog"}}
		if _, err := kube.AppsV1().Deployments("ns").Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		create(t, kube, site("blog", nil))
		if d := deployment(t, kube); len(d.OwnerReferences) > 0 || len(d.Spec.Template.Spec.Containers) > 0 {
			t.Errorf("their deployment has become %+v", d)
		}
	})
}
