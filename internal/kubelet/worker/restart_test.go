package worker_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/worker"
)

// probed is a pod with a sidecar, whose containers have all probes.
func probed(notes ...string) *corev1.Pod {
	pod := newPod("uid", notes...)
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	probe := &corev1.Probe{PeriodSeconds: 10, FailureThreshold: 1}
	side := corev1.Container{Name: "side", Image: "example.com/app:1", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}
	pod.Spec.InitContainers = []corev1.Container{side}
	for _, c := range []*corev1.Container{&pod.Spec.Containers[0], &pod.Spec.InitContainers[0]} {
		c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = probe, probe, probe
	}
	return pod
}

// A startup probe may be one that passes only once. And nothing but a readiness probe takes a container out of service.
func TestAKubeletThatRestartsKeepsWhatProbesHaveFound(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		pod := probed()
		s.put(pod)
		time.Sleep(time.Minute)
		before := s.status(t, pod)
		if !before.ContainerStatuses[0].Ready || !before.InitContainerStatuses[0].Ready {
			t.Fatalf("the pod is not ready at first: %+v", before)
		}
		s.end()
		s.mu.Lock()
		s.unstarted, s.reports = true, nil
		s.mu.Unlock()
		s.begin()
		time.Sleep(10 * time.Minute)
		after := s.status(t, pod)
		for i, all := range [][]corev1.ContainerStatus{before.ContainerStatuses, before.InitContainerStatuses} {
			now := [][]corev1.ContainerStatus{after.ContainerStatuses, after.InitContainerStatuses}[i][0]
			if now.ContainerID != all[0].ContainerID || now.RestartCount != 0 || !now.Ready || !*now.Started {
				t.Errorf("after the restart container %s is %+v", now.Name, now)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, told := range s.reports {
			t.Errorf("nothing has changed, and yet a status was reported: %+v", told)
		}
	})
}

func TestARunThatBeganWhileTheKubeletWasAwayIsProbedFromTheStart(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		pod := probed("run-for.main", "2m")
		s.put(pod)
		time.Sleep(time.Minute)
		first := s.status(t, pod).ContainerStatuses[0]
		s.end()
		time.Sleep(5 * time.Minute) // the container ends meanwhile
		s.mu.Lock()
		s.unstarted = true
		s.mu.Unlock()
		s.begin()
		time.Sleep(5 * time.Second)
		now := s.status(t, pod).ContainerStatuses[0]
		if !first.Ready || now.ContainerID == first.ContainerID || now.Ready || *now.Started {
			t.Errorf("a run that was never probed is %+v; the one before it was %+v", now, first)
		}
	})
}

// An eviction that was reported goes on: else the containers that have stopped already would be started again, or count
// as having succeeded.
func TestAnEvictionGoesOnAfterARestart(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		pod := newPod("uid", "stop-delay", "20s")
		pod.Spec.TerminationGracePeriodSeconds = new(int64(60))
		s.put(pod)
		time.Sleep(time.Minute)
		s.crew.Evict("uid", &worker.Rejection{Reason: worker.Evicted, Message: "memory is short"})
		time.Sleep(5 * time.Second)
		s.end()
		s.begin()
		time.Sleep(time.Minute)
		status := s.status(t, pod)
		if status.Phase != corev1.PodFailed || status.Reason != worker.Evicted || status.Message != "memory is short" {
			t.Errorf("the pod is %s: %s, %q", status.Phase, status.Reason, status.Message)
		}
		found := 0
		for _, c := range status.Conditions {
			if c.Type == corev1.DisruptionTarget {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%d conditions say that the pod was evicted: %+v", found, status.Conditions)
		}
	})
}

// A node that restarts has its pods' resources in use from the beginning, although it has not synced the pods yet.
func TestAPodCountsAsAdmittedBeforeItsFirstSync(t *testing.T) {
	ran, rejected, ended := newPod("ran"), newPod("rejected"), newPod("ended")
	ran.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: make([]corev1.ContainerStatus, 1)}
	rejected.Status = corev1.PodStatus{Phase: corev1.PodFailed}
	ended.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: make([]corev1.ContainerStatus, 1)}
	crew := worker.New(worker.Options{})
	for _, c := range []struct {
		pod  *corev1.Pod
		want bool
	}{{newPod("new"), false}, {ran, true}, {rejected, false}, {ended, false}} {
		if got := crew.Admitted(c.pod); got != c.want {
			t.Errorf("the pod %s counts: %t", c.pod.UID, got)
		}
	}
}

// The volumes of a running container were made ready by an earlier kubelet. That they cannot be updated now keeps
// nothing from restarting.
func TestAfterARestartPodsKeepTheVolumesThatTheyHave(t *testing.T) {
	playWith(t, worker.Options{Furnish: &stuck{}}, func(t *testing.T, s *stage) {
		pod := newPod("uid", "run-for.main", "10m", "run-for.other", "1000h")
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "other", Image: "example.com/app:1"})
		s.put(pod)
		time.Sleep(time.Minute)
		s.end()
		s.options.Furnish.(*stuck).unprepared.Store(true)
		s.begin()
		time.Sleep(20 * time.Minute)
		state, err := s.Pod(t.Context(), "uid")
		if run := state.Container("main"); err != nil || run == nil || run.Attempt == 0 || run.State != container.Running {
			t.Errorf("the container that has ended is %+v, %v", run, err)
		}
	})
}

func TestADeadlineThatHasPassedEndsThePodAfterARestartToo(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		pod := newPod("uid", "stop-delay", "20s")
		pod.Spec.ActiveDeadlineSeconds, pod.Spec.TerminationGracePeriodSeconds = new(int64(60)), new(int64(60))
		s.put(pod)
		time.Sleep(time.Second)
		s.crew.Changed(keyOf(pod)) // the API shows the pod's first status
		time.Sleep(64 * time.Second)
		s.end()
		s.begin()
		time.Sleep(time.Minute)
		if status := s.status(t, pod); status.Phase != corev1.PodFailed || status.Reason != "DeadlineExceeded" {
			t.Errorf("the pod is %s because of %q", status.Phase, status.Reason)
		}
	})
}

// Pod returns what the runtime has of a pod, with the grace period that real runtimes keep with each container.
func (s *stage) Pod(ctx context.Context, uid types.UID) (container.Pod, error) {
	pod, err := s.Runtime.Pod(ctx, uid)
	for i := range pod.Containers {
		pod.Containers[i].Grace = s.keptGrace
	}
	return pod, err
}

// The definition of a pod that was deleted while the kubelet was away is lost. What its end needs is kept with its
// containers.
func TestAPodThatWasDeletedMeanwhileEndsWithItsOwnGrace(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.keptGrace = time.Minute // longer than the default
		pod := newPod("uid", "stop-delay", "45s")
		s.put(pod)
		time.Sleep(time.Minute)
		s.end()
		s.mu.Lock()
		clear(s.pods)
		s.mu.Unlock()
		s.begin()
		found, err := s.Pod(t.Context(), "uid")
		if err != nil {
			t.Fatal(err)
		}
		s.crew.Found(&found)
		time.Sleep(40 * time.Second)
		s.mu.Lock()
		if i := slices.IndexFunc(s.events, func(e string) bool { return strings.Contains(e, "Killing") }); i < 0 || s.about[i] != pod.Name {
			t.Errorf("the events %q are about %q", s.events, s.about)
		}
		s.mu.Unlock()
		if now, err := s.Pod(t.Context(), "uid"); err != nil || !now.Runs() {
			t.Errorf("the container was not left its grace period: %+v, %v", now, err)
		}
		time.Sleep(time.Minute)
		if now, err := s.Pod(t.Context(), "uid"); err != nil || len(now.Containers)+len(now.Sandboxes) > 0 || s.crew.Len() > 0 {
			t.Errorf("what is left is %+v, %v", now, err)
		}
	})
}

func TestAfterARestartBackOffsBeginAnewAndRestartsAreCountedOn(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		pod := newPod("uid", "run-for", "1s", "exit-code", "1")
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
		s.put(pod)
		time.Sleep(time.Hour)
		before := s.status(t, pod).ContainerStatuses[0].RestartCount
		s.end()
		s.begin()
		time.Sleep(time.Minute) // runs at once, and after 10 and 20 s
		if after := s.status(t, pod).ContainerStatuses[0].RestartCount; after < before+2 || after > before+4 {
			t.Errorf("in the minute after the restart the count went from %d to %d", before, after)
		}
	})
}

// What is in force, and what is asked for in vain, is in the reported status.
func TestAResizeIsDecidedOnAgainAfterARestart(t *testing.T) {
	var full atomic.Bool
	full.Store(true)
	resize := func(*corev1.Pod) *worker.Rejection {
		if full.Load() {
			return &worker.Rejection{Reason: corev1.PodReasonDeferred, Message: "there is no room"}
		}
		return nil
	}
	playWith(t, worker.Options{Resize: resize}, func(t *testing.T, s *stage) {
		asks := func(cpu string) corev1.ResourceRequirements {
			return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
		}
		has := func(when, cpu string, waits bool) {
			t.Helper()
			status := s.status(t, newPod("uid"))
			have := status.ContainerStatuses[0].Resources.Requests[corev1.ResourceCPU]
			if have.String() != cpu || isTrue(&status, corev1.PodResizePending) != waits {
				t.Errorf("%s the container has %s, and the conditions are %+v", when, have.String(), status.Conditions)
			}
		}
		pod := newPod("uid")
		pod.Generation, pod.Spec.Containers[0].Resources = 1, asks("1")
		s.put(pod)
		time.Sleep(time.Minute)
		larger, _ := s.wanted(keyOf(pod))
		larger = larger.DeepCopy()
		larger.Generation, larger.Spec.Containers[0].Resources = 2, asks("2")
		s.put(larger)
		time.Sleep(time.Minute)
		has("before the restart", "1", true)
		s.end()
		s.begin()
		time.Sleep(time.Minute)
		has("after the restart", "1", true)
		full.Store(false)
		time.Sleep(time.Minute)
		has("with room", "2", false)
	})
}
