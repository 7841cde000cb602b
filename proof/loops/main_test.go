// Package loops_test tests the loops together: controllers, scheduler and hollow nodes with a real API, under use and
// failures.
package loops_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if built.directory != "" {
			os.RemoveAll(built.directory)
		}
		os.Exit(code)
	}))
}

// world is a cluster, and a namespace for one test.
type world struct {
	*testing.T
	cluster *millrace.Cluster
	kube    *kubernetes.Clientset
	ns      string
}

func start(t *testing.T, o millrace.Options) *world {
	t.Helper()
	c := millracetest.Start(t, o)
	w := &world{T: t, cluster: c, kube: millracetest.Clientset(t, c)}
	w.ns = w.namespace()
	return w
}

// within returns the same cluster for a subtest, with a new namespace.
func (w *world) within(t *testing.T) *world {
	t.Helper()
	other := &world{T: t, cluster: w.cluster, kube: w.kube}
	other.ns = other.namespace()
	return other
}

func (w *world) namespace() string {
	w.Helper()
	ns := must(w.kube.CoreV1().Namespaces().Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "proof-"}}, metav1.CreateOptions{}))(w)
	w.eventually("the default service account is there", func() error {
		_, err := w.kube.CoreV1().ServiceAccounts(ns.Name).Get(w.Context(), "default", metav1.GetOptions{})
		return err
	})
	return ns.Name
}

// must returns the value of a call that must not fail.
func must[V any](v V, err error) func(testing.TB) V {
	return func(t testing.TB) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// failAfter only makes a failure end: no test depends on its length.
const failAfter = 90 * time.Second

// eventually waits until holds returns nil.
func (w *world) eventually(what string, holds func() error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), failAfter)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.Fatalf("never: %s; at last: %v", what, err)
		}
	}
}

// pods returns the pods of the namespace that match a selector.
func (w *world) pods(selector string) []corev1.Pod {
	w.Helper()
	return must(w.kube.CoreV1().Pods(w.ns).List(w.Context(), metav1.ListOptions{LabelSelector: selector}))(w).Items
}

// none returns an error if there are pods.
func (w *world) none(selector string) error {
	if n := len(w.pods(selector)); n > 0 {
		return fmt.Errorf("%d pods", n)
	}
	return nil
}

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// active reports that a pod has not ended and is not terminating.
func active(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

func ptr[V any](v V) *V { return &v }
