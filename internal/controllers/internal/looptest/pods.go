package looptest

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Containers returns the containers of test pods.
func Containers() []corev1.Container { return []corev1.Container{{Name: "main", Image: "image"}} }

// Namespace makes a namespace.
func Namespace(s *Server, name string) {
	s.t.Helper()
	Create(s, "namespaces", "", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// Observe calls check after each change of a pod, until the test ends or stop is called.
func Observe(s *Server, check func()) (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	pods, err := s.Kube.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for range pods.ResultChan() {
			check()
		}
	})
	stop = sync.OnceFunc(func() {
		pods.Stop()
		running.Wait()
		cancel()
	})
	s.t.Cleanup(stop)
	return stop
}
