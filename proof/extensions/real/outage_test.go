//go:build unix

package real_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/millrace/millrace/millracetest"
)

// hangs stops the server where it is, with more requests to it than a cluster serves at a time. Other requests must not
// wait for any of them.
func (s *sample) hangs() {
	const many = 700 // the two limits of requests in flight are 400 and 200
	s.signal(s.world, syscall.SIGSTOP)
	ctx, cancel := context.WithCancel(s.Context())
	var hanging sync.WaitGroup
	own := s.alice().Resource(flunders).Namespace("default")
	for i := range many {
		hanging.Go(func() {
			if o, err := own.Get(ctx, fmt.Sprint("none-", i), metav1.GetOptions{}); err == nil {
				s.Errorf("somebody has answered: %v", o)
			}
		})
	}
	s.othersAnswer()
	cancel()
	hanging.Wait()
	s.condition(alpha, "FailedDiscoveryCheck")
	s.signal(s.world, syscall.SIGCONT)
	s.condition(alpha, "Passed")
	s.eventually("requests reach it again", func() error {
		_, err := own.List(s.Context(), metav1.ListOptions{})
		return err
	})
}

// othersAnswer checks that requests which do not concern the server work.
func (s *sample) othersAnswer() {
	s.Helper()
	for i := range 50 {
		name := fmt.Sprint("beside-", i)
		_, err := s.kube.CoreV1().ConfigMaps("default").Create(s.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		s.must(err)
		_, err = s.kube.CoreV1().ConfigMaps("default").List(s.Context(), metav1.ListOptions{})
		s.must(err)
		s.must(s.kube.CoreV1().ConfigMaps("default").Delete(s.Context(), name, metav1.DeleteOptions{}))
	}
}

func (s *sample) isKilled() {
	s.pond("held")
	own := s.alice().Resource(flunders).Namespace("default")
	_, err := own.Create(s.Context(), flunder("survivor", nil), metav1.CreateOptions{})
	s.must(err)
	w, err := own.Watch(s.Context(), metav1.ListOptions{})
	s.must(err)
	defer w.Stop()
	s.kill()
	for range w.ResultChan() { // it ends, because the server has
	}
	if _, err := own.List(s.Context(), metav1.ListOptions{}); !apierrors.IsServiceUnavailable(err) {
		s.Errorf("a list is answered with %v", err)
	}
	c := s.condition(alpha, "FailedDiscoveryCheck")
	if err := contains(c.Message, "connection refused"); err != nil || c.Status != "False" {
		s.Errorf("%v %v", c.Status, err)
	}
	s.othersAnswer()
	s.isShownAsGone()
	s.must(s.kube.CoreV1().Namespaces().Delete(s.Context(), "held", metav1.DeleteOptions{}))
	millracetest.WaitWithin(s.T, bound, s.kube.CoreV1().Namespaces(), "held", func(n *corev1.Namespace) bool {
		return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NamespaceCondition) bool {
			return c.Type == corev1.NamespaceDeletionDiscoveryFailure && c.Status == corev1.ConditionTrue
		})
	})
}

// isShownAsGone checks what discovery says. Its document calls the versions of the server stale. Clients leave these
// out, and name them if they are asked; kubectl shows the rest without a word.
func (s *sample) isShownAsGone() {
	s.Helper()
	_, _, err := discovery.NewDiscoveryClientForConfigOrDie(s.cluster.Config()).ServerGroupsAndResources()
	failed, _ := discovery.GroupDiscoveryFailedErrorGroups(err)
	if _, ok := failed[flunders.GroupVersion()]; !ok || len(failed) != 2 {
		s.Errorf("discovery fails with %v", err)
	}
	out, messages, ok := s.kubectl("api-resources", "--cached=false")
	if err := contains(out, "configmaps", "deployments", "apps/v1"); err != nil || !ok || strings.Contains(out, "flunders") {
		s.Errorf("kubectl api-resources: %v, %s%s", err, out, messages)
	}
	if _, messages, ok := s.kubectl("get", "flunders"); ok {
		s.Errorf("kubectl get flunders: %s", messages)
	}
}

func (s *sample) comesBack() {
	s.start(s.world)
	s.condition(alpha, "Passed")
	s.condition(beta, "Passed")
	own := s.alice().Resource(flunders).Namespace("default")
	s.eventually("what it had is there", func() error {
		_, err := own.Get(s.Context(), "survivor", metav1.GetOptions{})
		return err
	})
	s.eventually("the namespace that waited for it", func() error {
		_, err := s.kube.CoreV1().Namespaces().Get(s.Context(), "held", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there, or %v", err)
	})
}
