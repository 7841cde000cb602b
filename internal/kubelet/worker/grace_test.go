package worker_test

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/worker"
)

// Each cause ends a pod with the grace that Kubernetes gives for it. Until the containers have stopped, the pod has not
// failed.
func TestAPodHasFailedWhenItsContainersHaveStopped(t *testing.T) {
	evict := func(within time.Duration) func(*stage) {
		return func(s *stage) {
			s.crew.Evict("uid", &worker.Rejection{Reason: worker.Evicted, Message: "short", Within: within})
		}
	}
	for _, c := range []struct {
		name, reason string
		deadline     *int64
		end          func(*stage)
		lasts        time.Duration // how long the container runs on
		code         int32
	}{
		{"a deadline leaves the whole grace period", "DeadlineExceeded", new(int64(60)), func(*stage) {}, 20 * time.Second, 0},
		{"a soft eviction too", worker.Evicted, nil, evict(0), 20 * time.Second, 0},
		{"a soft eviction with a limit leaves that", worker.Evicted, nil, evict(10 * time.Second), 10 * time.Second, 137},
		{"a hard eviction leaves a second", worker.Evicted, nil, evict(time.Second), time.Second, 137},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				pod := newPod("uid", "stop-delay", "20s")
				pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
				pod.Spec.TerminationGracePeriodSeconds, pod.Spec.ActiveDeadlineSeconds = new(int64(45)), c.deadline
				s.put(pod)
				time.Sleep(time.Second)
				s.crew.Changed(keyOf(pod)) // the API shows the pod's first status
				time.Sleep(59*time.Second + time.Millisecond)
				c.end(s)
				time.Sleep(c.lasts - 50*time.Millisecond)
				leaving := s.status(t, pod)
				if leaving.Phase != corev1.PodRunning || leaving.Reason != "" || leaving.ContainerStatuses[0].State.Running == nil || isTrue(&leaving, corev1.PodReady) {
					t.Errorf("while its container stops, the pod is %+v", leaving)
				}
				time.Sleep(time.Second)
				status := s.status(t, pod)
				ended := status.ContainerStatuses[0].State.Terminated
				if status.Phase != corev1.PodFailed || status.Reason != c.reason || ended == nil || ended.ExitCode != c.code {
					t.Errorf("the pod is %s because of %q, and the container has ended as %+v", status.Phase, status.Reason, ended)
				}
				time.Sleep(time.Hour)
				if now := s.status(t, pod); now.Phase != corev1.PodFailed || now.Reason != c.reason || now.ContainerStatuses[0].RestartCount > 0 {
					t.Errorf("an hour later the pod is %+v", now)
				}
			})
		})
	}
}

// Who else sets a pod's phase does not take its grace away.
func TestAPodThatSomebodyHasMarkedAsFailedKeepsItsGrace(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		pod := newPod("uid", "stop-delay", "20s")
		pod.Spec.TerminationGracePeriodSeconds = new(int64(60))
		s.put(pod)
		time.Sleep(time.Minute)
		marked, _ := s.wanted(keyOf(pod))
		marked = marked.DeepCopy()
		marked.Status.Phase = corev1.PodFailed
		s.put(marked)
		time.Sleep(time.Minute)
		if ended := s.status(t, pod).ContainerStatuses[0].State.Terminated; ended == nil || ended.ExitCode != 0 {
			t.Errorf("the container has ended as %+v", ended)
		}
	})
}

func isTrue(status *corev1.PodStatus, kind corev1.PodConditionType) bool {
	for _, c := range status.Conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func TestAVeryLongGracePeriodIsNoShortOne(t *testing.T) {
	for _, seconds := range []int64{9_223_372_037, 18_446_744_074, math.MaxInt64} {
		play(t, func(t *testing.T, s *stage) {
			pod := newPod("uid", "stop-delay", "1h")
			pod.Spec.TerminationGracePeriodSeconds = &seconds
			s.put(pod)
			time.Sleep(time.Minute)
			deleted, _ := s.wanted(keyOf(pod))
			deleted = deleted.DeepCopy()
			deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, &seconds
			s.put(deleted)
			time.Sleep(2 * time.Hour)
			state, err := s.Pod(t.Context(), "uid")
			run := state.Container("main")
			if err != nil || run == nil || run.State != container.Exited || run.ExitCode != 0 || run.FinishedAt.Sub(run.StartedAt) < time.Hour {
				t.Errorf("with a grace period of %d seconds the container has ended as %+v, %v", seconds, run, err)
			}
		})
	}
}
