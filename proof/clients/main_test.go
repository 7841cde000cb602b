// Package clients_test tests the server from outside: clients that people use, and hostile ones, against a whole
// cluster.
package clients_test

import (
	"context"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
)

func TestMain(m *testing.M) {
	if directory := os.Getenv(victimVariable); directory != "" {
		runVictim(millrace.Options{Data: directory})
		return
	}
	// If the reader of apimachinery's filtered watch has left, its goroutine ends with the next event, or never.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"))
}

// start starts an API server without loops that ends with the test.
func start(t testing.TB, o millrace.Options) *millrace.Cluster {
	t.Helper()
	o.Controllers, o.NoScheduler = []string{}, true
	c, err := millrace.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

const protobuf = "application/vnd.kubernetes.protobuf"

// wires are the formats that a typed client can use.
var wires = map[string]func(*rest.Config){
	"JSON":     func(c *rest.Config) { c.ContentType = runtime.ContentTypeJSON },
	"protobuf": func(c *rest.Config) { c.ContentType, c.AcceptContentTypes = protobuf, protobuf+",application/json" },
	"plain":    func(c *rest.Config) { c.DisableCompression = true },
}

func clientset(t testing.TB, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	k, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func eachWire(t *testing.T, do func(t *testing.T, k *kubernetes.Clientset, ns string)) {
	c := start(t, millrace.Options{})
	for name, wire := range wires {
		t.Run(name, func(t *testing.T) {
			config := c.Config()
			wire(config)
			k := clientset(t, config)
			ns := must(k.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "wire-"}}, metav1.CreateOptions{}))(t)
			do(t, k, ns.Name)
		})
	}
}

// must returns the value of a call that must not fail.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// next waits for one event.
func next(t testing.TB, w watch.Interface) watch.Event {
	t.Helper()
	select {
	case e, open := <-w.ResultChan():
		if !open {
			t.Fatal("the watch ended")
		}
		return e
	case <-time.After(20 * time.Second):
		t.Fatal("no event came")
	}
	panic("unreachable")
}

// eventually waits until something holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("never: " + what)
		}
	}
}

func configMap(name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: map[string]string{"k": "v"}}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "x"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image"}}}}
}
