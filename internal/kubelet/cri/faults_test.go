package cri

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/worker"
	"github.com/millrace/millrace/internal/sleep"
)

var silentLog = slog.New(slog.DiscardHandler)

// scene is a pod, a Crew that runs it, and a runtime that may fail.
type scene struct {
	t    *testing.T
	fake *fake
	run  *Runtime
	crew *worker.Crew
	over chan struct{}
	once sync.Once

	mu   sync.Mutex // guards what follows
	pods map[worker.Key]*corev1.Pod
}

var subject = worker.Key{Namespace: "default", Name: "subject"}

func newScene(t *testing.T, f fault) *scene {
	s := &scene{t: t, fake: newFake(t, f), over: make(chan struct{}), pods: map[worker.Key]*corev1.Pod{}}
	s.run = s.fake.open()
	s.crew = worker.New(worker.Options{
		Runtime: s.run, Images: s.run, Wanted: s.wanted, Report: s.report,
		Addresses: func(string) []string { return []string{"127.0.0.1"} },
	})
	return s
}

// play runs the Crew and the search for orphaned pods until story ends.
func (s *scene) play(story func()) {
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.crew.Run(ctx); err != nil {
			s.t.Error(err)
		}
	})
	all.Go(func() {
		for ctx.Err() == nil {
			sleep.For(ctx, 30*time.Second)
			if found, err := s.run.Pods(ctx); err == nil {
				for i := range found {
					s.crew.Found(&found[i])
				}
			}
		}
	})
	story()
	stop()
	all.Wait()
}

func (s *scene) wanted(key worker.Key) (*corev1.Pod, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.pods[key]
	return p, ok
}

func (s *scene) report(_ context.Context, pod *corev1.Pod, status *corev1.PodStatus, finished bool) {
	s.mu.Lock()
	now, ok := s.pods[subject]
	if ok && now.UID == pod.UID {
		now = now.DeepCopy()
		now.Status = *status.DeepCopy()
		s.pods[subject] = now
		if finished && now.DeletionTimestamp != nil {
			delete(s.pods, subject)
		}
	}
	s.mu.Unlock()
	s.crew.Changed(subject)
}

// put makes a pod wanted. It has an init container, a sidecar and a container with a preStop hook.
func (s *scene) put(uid types.UID) {
	always := corev1.ContainerRestartPolicyAlways
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: subject.Namespace, Name: subject.Name, UID: uid}}
	p.Spec.RestartPolicy, p.Spec.TerminationGracePeriodSeconds = corev1.RestartPolicyAlways, new(int64(2))
	p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "a"}, {Name: "side", Image: "a", RestartPolicy: &always}}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "b", Lifecycle: &corev1.Lifecycle{
		PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}},
	}}}
	s.mu.Lock()
	s.pods[subject] = p
	s.mu.Unlock()
	s.crew.Changed(subject)
}

// The ways in which a pod ends.
var ways = map[string]func(*scene){
	"deleted": func(s *scene) {
		s.mu.Lock()
		p := s.pods[subject].DeepCopy()
		now := metav1.Now()
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, new(int64(1))
		s.pods[subject] = p
		s.mu.Unlock()
		s.crew.Changed(subject)
	},
	"removed": func(s *scene) {
		s.mu.Lock()
		delete(s.pods, subject)
		s.mu.Unlock()
		s.crew.Changed(subject)
	},
	"evicted": func(s *scene) {
		s.crew.Evict("first", &worker.Rejection{Reason: "Evicted", Within: time.Second})
		time.AfterFunc(time.Minute, func() { waysRemoved(s) })
	},
	"replaced": func(s *scene) {
		s.put("second")
		time.AfterFunc(time.Minute, func() { waysRemoved(s) })
	},
}

func waysRemoved(s *scene) {
	s.mu.Lock()
	delete(s.pods, subject)
	s.mu.Unlock()
	s.crew.Changed(subject)
}

// end ends the pod, once.
func (s *scene) end(way string) {
	s.once.Do(func() {
		ways[way](s)
		close(s.over)
	})
}

// within returns how long parts of a pod may be left after its end. Silent calls time out after some minutes.
func (f fault) within() time.Duration {
	if f.sort == silent || f.sort == doneSilent {
		return 5 * time.Minute
	}
	return 2 * time.Minute
}

func (s *scene) expectNothing(within time.Duration) {
	s.t.Helper()
	time.Sleep(within)
	if boxes, runs := s.fake.left(); boxes+runs+s.crew.Len() > 0 {
		s.t.Errorf("%v after its end there are %d sandboxes, %d containers and %d pods", within, boxes, runs, s.crew.Len())
	}
}

// A pod may end at any step, and any step may fail.
func TestNothingIsLeftOfAPodWhateverFailsOnce(t *testing.T) {
	calls := []string{
		"Status", "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "ListPodSandbox", "PodSandboxStatus", "ListContainers", "ContainerStatus",
		"CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "ExecSync", "ImageStatus", "PullImage",
	}
	moments := []string{"RunPodSandbox", "PullImage", "StartContainer", "later"}
	for _, call := range calls {
		for _, sort := range []string{fails, silent, doneSilent, doneFails, half} {
			if sort == half && call != "RunPodSandbox" {
				continue
			}
			for nth := 1; nth <= 2; nth++ {
				f := fault{call, nth, sort}
				for _, moment := range moments {
					if nth > 1 && moment != "later" {
						continue
					}
					for way := range ways {
						ended(t, f, moment, way)
					}
				}
			}
		}
	}
}

func ended(t *testing.T, f fault, moment, way string) {
	t.Run(fmt.Sprintf("%s %d %s, %s at %s", f.call, f.nth, f.sort, way, moment), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, f)
			s.fake.before = func(name string) {
				if name == moment {
					s.end(way)
				}
			}
			s.play(func() {
				s.put("first")
				sleep.For(t.Context(), 20*time.Second)
				s.end(way)
				s.expectNothing(f.within())
			})
		})
	})
}

// A step may take minutes. It is canceled when the pod must end.
func TestTheEndOfAPodCancelsTheRunningStep(t *testing.T) {
	for _, call := range []string{"RunPodSandbox", "ImageStatus", "PullImage", "CreateContainer", "StartContainer"} {
		for _, way := range []string{"deleted", "removed", "replaced", "evicted"} {
			t.Run(call+" "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScene(t, fault{call, 1, silent})
					s.play(func() {
						s.put("first")
						sleep.For(t.Context(), 20*time.Second)
						s.end(way)
						sleep.For(t.Context(), 40*time.Second)
						if n := s.fake.living("first"); n > 0 {
							t.Errorf("%d containers and sandboxes of the pod live on", n)
						}
						switch n := s.fake.living("second"); {
						case way == "replaced" && n < 3:
							t.Errorf("of its successor there are %d containers and sandboxes", n)
						case way == "deleted" || way == "removed":
							s.expectNothing(0)
						}
					})
				})
			})
		}
	}
}

// A start that takes a while ends as it would have ended without the pod's end, so that it does not look like a
// failure.
func TestAStartOutlivesItsPodForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		longer, end := outlive(ctx, 10*time.Second)
		defer end()
		cancel()
		time.Sleep(9 * time.Second)
		if longer.Err() != nil {
			t.Error("it has ended at once")
		}
		time.Sleep(2 * time.Second)
		if longer.Err() == nil {
			t.Error("it goes on for ever")
		}
	})
}

// If the runtime has lost the exit of a container, Stop is retried with delays until it succeeds.
func TestAStopThatFailsIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, fault{})
		s.play(func() {
			s.put("first")
			sleep.For(t.Context(), 20*time.Second)
			s.fake.setBroken("StopContainer", true)
			s.end("deleted")
			sleep.For(t.Context(), 10*time.Minute)
			if n := s.fake.living("first"); n == 0 {
				t.Error("it could be stopped")
			}
			if n := s.fake.asked("StopContainer"); n > 700 {
				t.Errorf("in 10 minutes the runtime was asked %d times", n)
			}
			s.fake.setBroken("StopContainer", false)
			s.expectNothing(time.Minute)
		})
	})
}

// If the runtime does not say whether there is a network, a pod must not get the node's network.
func TestAPodDoesNotGetTheNodesNetworkByMistake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, fault{"Status", 1, fails})
		s.fake.checked = func(r *runtimeapi.PodSandboxConfig) {
			if r.Linux.SecurityContext.NamespaceOptions.Network != runtimeapi.NamespaceMode_POD {
				t.Error("the pod has the node's network")
			}
		}
		s.play(func() {
			s.put("first")
			sleep.For(t.Context(), 20*time.Second)
			if n := s.fake.living("first"); n < 3 {
				t.Errorf("of the pod there are %d containers and sandboxes", n)
			}
			s.end("deleted")
			s.expectNothing(time.Minute)
		})
	})
}

// Without a network configuration only pods with hostNetwork start.
func TestWithoutANetworkOnlyHostNetworkPodsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, fault{})
		f.noNetwork = true
		r := f.open()
		problem, network := r.Ready(t.Context())
		const words = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized"
		if problem != "" || network != words {
			t.Errorf("ready: %q, %q", problem, network)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "subject", UID: "first"}}
		_, err := r.RunSandbox(t.Context(), &container.SandboxSpec{Pod: pod})
		if none, ok := errors.AsType[*container.NetworkNotReady](err); !ok || none.Error() != "network is not ready: "+words {
			t.Errorf("a pod without a network of its own: %v", err)
		}
		pod.Spec.HostNetwork = true
		if _, err := r.RunSandbox(t.Context(), &container.SandboxSpec{Pod: pod}); err != nil {
			t.Errorf("a pod of the node's network: %v", err)
		}
	})
}

func TestACommandEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(t, fault{"ExecSync", 1, silent}).open()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		if _, err := r.Exec(ctx, "run", []string{"true"}); err == nil || time.Since(began) != time.Second {
			t.Errorf("it took %v: %v", time.Since(began), err)
		}
	})
}
