package main

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

// logged is what the operator has logged.
type logged struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(b)
}

// operate runs the operator with a real API server, in virtual time, while f runs. The operator must not log any error.
func operate(t *testing.T, f func(t *testing.T, kube kubernetes.Interface)) {
	synctest.Test(t, func(t *testing.T) {
		config := millracetest.API(t)
		var log logged
		clients, err := loop.NewClients(config, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
		if err != nil {
			t.Fatal(err)
		}
		clients = clients.Named("website")
		operator, err := websites(clients)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- loop.Run(ctx, clients, operator) }()
		kube := clients.Kube
		if _, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		f(t, kube)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the operator said:\n%s", log.lines.String())
		}
	})
}

func site(name string, labels map[string]string, files map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels}, Data: files}
}

var isSite = map[string]string{"website": ""}

func create(t *testing.T, kube kubernetes.Interface, m *corev1.ConfigMap) *corev1.ConfigMap {
	t.Helper()
	made, err := kube.CoreV1().ConfigMaps(m.Namespace).Create(t.Context(), m, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func deployment(t *testing.T, kube kubernetes.Interface) *appsv1.Deployment {
	t.Helper()
	synctest.Wait()
	d, err := kube.AppsV1().Deployments("ns").Get(t.Context(), "blog", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestALabelledConfigMapBecomesADeploymentThatItOwns(t *testing.T) {
	operate(t, func(t *testing.T, kube kubernetes.Interface) {
		blog := create(t, kube, site("blog", isSite, map[string]string{"index.html": "hello"}))
		create(t, kube, site("settings", nil, nil))
		if d := deployment(t, kube); !metav1.IsControlledBy(d, blog) {
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

func TestNewContentIsRolledOutAndManualChangesAreReverted(t *testing.T) {
	operate(t, func(t *testing.T, kube kubernetes.Interface) {
		create(t, kube, site("blog", isSite, map[string]string{"index.html": "hello"}))
		before := deployment(t, kube)
		if _, err := kube.CoreV1().ConfigMaps("ns").Patch(t.Context(), "blog", types.MergePatchType,
			[]byte(`{"data":{"index.html":"bye"}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		after := deployment(t, kube)
		if before.Spec.Template.Annotations["content"] == after.Spec.Template.Annotations["content"] {
			t.Error("new content changed nothing")
		}
		if _, err := kube.AppsV1().Deployments("ns").Patch(t.Context(), "blog", types.StrategicMergePatchType,
			[]byte(`{"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"web","image":"apache"}]}}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		d := deployment(t, kube)
		if image := d.Spec.Template.Spec.Containers[0].Image; image != "nginx:1.29" || *d.Spec.Replicas != 3 {
			t.Errorf("the image is %s, there are %d replicas; the operator says nothing of replicas", image, *d.Spec.Replicas)
		}
		if err := kube.AppsV1().Deployments("ns").Delete(t.Context(), "blog", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		deployment(t, kube) // it exists again
	})
}

func TestADeploymentOfAnotherOwnerIsNotChangedUntilItIsDeleted(t *testing.T) {
	for _, labels := range []map[string]string{nil, {"website": "theirs"}} {
		operate(t, func(t *testing.T, kube kubernetes.Interface) {
			theirs := deploymentOf(site("blog", nil, nil))
			theirs.OwnerReferences, theirs.Labels = nil, labels
			made, err := kube.AppsV1().Deployments("ns").Create(t.Context(), theirs, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			blog := create(t, kube, site("blog", isSite, nil))
			if d := deployment(t, kube); d.UID != made.UID || len(d.OwnerReferences) > 0 || d.Generation != made.Generation {
				t.Errorf("their deployment has become %+v", d)
			}
			if err := kube.AppsV1().Deployments("ns").Delete(t.Context(), "blog", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			if d := deployment(t, kube); !metav1.IsControlledBy(d, blog) {
				t.Errorf("when theirs has gone, ours has the owners %v", d.OwnerReferences)
			}
		})
	}
}
