package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/worker"
)

// Pull pulls an image. That of "example.com/slow" takes an hour.
func (s *stage) Pull(ctx context.Context, image string, credentials []container.Credential) (string, error) {
	if image == slowImage {
		select {
		case <-time.After(time.Hour):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return s.Runtime.Pull(ctx, image, credentials)
}

const slowImage = "example.com/slow:1"

// Hooks, pulls and probes take as long as the pod's creator chooses. Other pods of the node do not wait for them.
func TestWhatTakesLongHoldsNoWorker(t *testing.T) {
	for name, edit := range map[string]func(*corev1.Container){
		"postStart hooks": func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3600}}}
		},
		"pulls": func(c *corev1.Container) { c.Image, c.ImagePullPolicy = slowImage, corev1.PullAlways },
		"probes": func(c *corev1.Container) {
			hang := corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"hang"}}}
			c.LivenessProbe = &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 3600, ProbeHandler: hang}
		},
	} {
		t.Run(name, func(t *testing.T) {
			playWith(t, worker.Options{Workers: 2}, func(t *testing.T, s *stage) {
				for i := range 20 {
					name := fmt.Sprintf("slow-%d", i)
					pod := newPod(types.UID(name))
					pod.Name = name
					edit(&pod.Spec.Containers[0])
					s.put(pod)
				}
				time.Sleep(time.Minute)
				pod := newPod("quick")
				pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1}
				s.put(pod)
				time.Sleep(time.Minute)
				if status := s.status(t, pod); !isTrue(&status, corev1.PodReady) {
					t.Errorf("beside 20 others with long %s a pod is %s", name, status.Phase)
				}
				time.Sleep(2 * time.Hour)
				slow := newPod("")
				slow.Name = "slow-0"
				if status := s.status(t, slow); status.Phase != corev1.PodRunning {
					t.Errorf("two hours later a pod with long %s is %s", name, status.Phase)
				}
			})
		})
	}
}

func TestAPodCanEndWhileItsHookRuns(t *testing.T) {
	playWith(t, worker.Options{Workers: 1}, func(t *testing.T, s *stage) {
		pod := newPod("uid")
		pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3600}}}
		s.put(pod)
		time.Sleep(time.Minute)
		s.mu.Lock()
		delete(s.pods, keyOf(pod))
		s.mu.Unlock()
		s.crew.Changed(keyOf(pod))
		time.Sleep(time.Minute)
		if n := s.crew.Len(); n > 0 {
			t.Errorf("%d pods are left", n)
		}
	})
}
