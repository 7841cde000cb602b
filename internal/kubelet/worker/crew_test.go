package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/hollow"
	"github.com/millrace/millrace/internal/kubelet/runtimetest"
	"github.com/millrace/millrace/internal/kubelet/worker"
)

// stage is a Crew with a fake runtime, and with functions in place of the API.
type stage struct {
	*runtimetest.Runtime
	t       *testing.T
	options worker.Options
	crew    *worker.Crew
	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex // guards what follows
	pods   map[worker.Key]*corev1.Pod
	events []string
	about  []string // the names of the pods that the events are about
	// volumeImages are the images that containers got as volumes, by the container's name.
	volumeImages map[string]map[string]string
	warning      string // what all probes warn of; set before the first pod
	reports      []corev1.PodStatus
	unstarted    bool          // startup probes fail
	keptGrace    time.Duration // of all containers; set before the first pod
	creates      int           // how often a container was to be made
	noCreates    bool          // each of them fails, with another message
}

// play runs story in virtual time.
func play(t *testing.T, story func(t *testing.T, s *stage)) { playWith(t, worker.Options{}, story) }

// playWith does the same, with further options.
func playWith(t *testing.T, o worker.Options, story func(t *testing.T, s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{Runtime: runtimetest.New(), t: t, pods: map[worker.Key]*corev1.Pod{}}
		o.Runtime, o.Images, o.Wanted, o.Report, o.Record = s, s, s.wanted, s.report, s
		s.options = o
		s.begin()
		story(t, s)
		s.end()
	})
}

// begin starts a kubelet, which finds the pods and containers of the one before it.
func (s *stage) begin() {
	ctx, stop := context.WithCancel(s.t.Context())
	crew := worker.New(s.options)
	s.crew, s.stop = crew, stop
	s.running.Go(func() {
		if err := crew.Run(ctx); err != nil {
			s.t.Error(err)
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.pods {
		crew.Changed(key)
	}
}

// end ends the kubelet. Containers go on.
func (s *stage) end() {
	s.stop()
	s.running.Wait()
}

func (s *stage) wanted(key worker.Key) (*corev1.Pod, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod, ok := s.pods[key]
	return pod, ok
}

func (s *stage) report(_ context.Context, pod *corev1.Pod, status *corev1.PodStatus, _ bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := keyOf(pod)
	if now, ok := s.pods[key]; ok && now.UID == pod.UID {
		reported := now.DeepCopy()
		reported.Status = *status.DeepCopy()
		s.reports = append(s.reports, *status.DeepCopy())
		s.pods[key] = reported
	}
}

func (s *stage) Eventf(o runtime.Object, kind, reason, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.about = append(s.about, o.(*corev1.ObjectReference).Name)
	s.events = append(s.events, kind+" "+reason+": "+fmt.Sprintf(format, args...))
}

func keyOf(pod *corev1.Pod) worker.Key { return worker.Key{Namespace: pod.Namespace, Name: pod.Name} }

// put sets the wanted pod of a name.
func (s *stage) put(pod *corev1.Pod) {
	s.mu.Lock()
	s.pods[keyOf(pod)] = pod
	s.mu.Unlock()
	s.crew.Changed(keyOf(pod))
}

func (s *stage) status(t *testing.T, pod *corev1.Pod) corev1.PodStatus {
	t.Helper()
	now, ok := s.wanted(keyOf(pod))
	if !ok {
		t.Fatalf("no pod %s", pod.Name)
	}
	return now.Status
}

func newPod(uid types.UID, annotations ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: uid, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "main", Image: "example.com/app:1"}},
		},
	}
	for i := 0; i < len(annotations); i += 2 {
		pod.Annotations[hollow.Prefix+annotations[i]] = annotations[i+1]
	}
	return pod
}

func TestAnEvictionDoesNotHitANewerPodOfTheSameName(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		evict := func(uid types.UID) { s.crew.Evict(uid, &worker.Rejection{Reason: "Evicted", Within: time.Second}) }
		s.put(newPod("first"))
		time.Sleep(time.Minute)
		second := newPod("second")
		s.put(second)
		time.Sleep(time.Minute)
		evict("first")
		time.Sleep(time.Minute)
		if phase := s.status(t, second).Phase; phase != corev1.PodRunning {
			t.Errorf("the second pod is %s after the first was evicted", phase)
		}
		evict("second")
		time.Sleep(time.Minute)
		if status := s.status(t, second); status.Phase != corev1.PodFailed || status.Reason != "Evicted" {
			t.Errorf("the second pod is %s, %s", status.Phase, status.Reason)
		}
	})
}

// stuck is a Furnisher of a node whose devices are not given back.
type stuck struct {
	worker.Furnisher
	freed, unprepared atomic.Bool
}

func (s *stuck) Prepare(context.Context, *corev1.Pod) error {
	if s.unprepared.Load() {
		return errors.New("the volume cannot be updated")
	}
	return nil
}

func (*stuck) Sandbox(context.Context, *container.SandboxSpec) error               { return nil }
func (*stuck) Furnish(context.Context, *container.Spec, []string) error            { return nil }
func (*stuck) Message(*corev1.Pod, *corev1.Container, *container.Container) string { return "" }
func (*stuck) Credentials(context.Context, *corev1.Pod, string) ([]container.Credential, error) {
	return nil, nil
}

func (s *stuck) Release(context.Context, worker.Key, string) error {
	if s.freed.Load() {
		return nil
	}
	return errors.New("the driver does not answer")
}

func (*stuck) Check(context.Context, *corev1.Pod) error {
	return &worker.NotPrepared{Reason: "FailedPrepareDynamicResources", Err: errors.New("the old claim still exists")}
}

func TestAPodIsToldWhyItWaitsForAnEarlierOneOfItsName(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		f := &stuck{}
		s.crew.Furnish = f
		s.put(newPod("first"))
		time.Sleep(time.Minute)
		second := newPod("second")
		s.put(second)
		time.Sleep(time.Minute)
		s.mu.Lock()
		told := slices.Contains(s.events, "Warning FailedPrepareDynamicResources: the old claim still exists")
		s.mu.Unlock()
		if phase := s.status(t, second).Phase; phase == corev1.PodRunning || !told {
			t.Errorf("the pod is %q, and the events are %q", phase, s.events)
		}
		f.freed.Store(true)
		time.Sleep(time.Minute)
		if phase := s.status(t, second).Phase; phase != corev1.PodRunning {
			t.Errorf("the pod is %q when the devices are free", phase)
		}
	})
}

func TestContainersWaitForRunningAndFailedInitContainers(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		pod := newPod("uid", "run-for.first", "1m", "exit-code.first", "1")
		pod.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "example.com/app:1"}, {Name: "second", Image: "example.com/app:1"}}
		s.put(pod)
		time.Sleep(30 * time.Second)
		expectInitializing(t, s.status(t, pod), corev1.PodPending)
		time.Sleep(time.Minute)
		expectInitializing(t, s.status(t, pod), corev1.PodFailed)
	})
}

func expectInitializing(t *testing.T, status corev1.PodStatus, phase corev1.PodPhase) {
	t.Helper()
	if status.Phase != phase {
		t.Errorf("the pod is %s, want %s", status.Phase, phase)
	}
	for _, c := range []corev1.ContainerStatus{status.ContainerStatuses[0], status.InitContainerStatuses[1]} {
		if c.State.Waiting == nil || c.State.Waiting.Reason != "PodInitializing" {
			t.Errorf("%s: container %s is %+v", phase, c.Name, c.State)
		}
	}
}

func TestAPodWaitsForTheNetworkAndReportsIt(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.SetAnswers(runtimetest.Answers{Network: "container runtime network not ready: NetworkReady=false"})
		pod, host := newPod("uid"), newPod("host")
		host.Name, host.Spec.HostNetwork = "host", true
		s.put(pod)
		s.put(host)
		time.Sleep(time.Minute)
		if phase := s.status(t, pod).Phase; phase != corev1.PodPending {
			t.Errorf("without a network the pod is %s", phase)
		}
		if phase := s.status(t, host).Phase; phase != corev1.PodRunning {
			t.Errorf("the pod of the node's network is %s", phase)
		}
		const want = "Warning NetworkNotReady: network is not ready: container runtime network not ready: NetworkReady=false"
		s.mu.Lock()
		if !slices.Contains(s.events, want) || slices.ContainsFunc(s.events, func(e string) bool { return strings.Contains(e, "FailedCreatePodSandBox") }) {
			t.Errorf("events: %q", s.events)
		}
		s.mu.Unlock()
		s.SetAnswers(runtimetest.Answers{})
		time.Sleep(time.Minute)
		if phase := s.status(t, pod).Phase; phase != corev1.PodRunning {
			t.Errorf("with a network the pod is %s", phase)
		}
	})
}

func TestProbesOfReplacedContainersAreForgotten(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		pod := newPod("uid", "crashes", "20", "crash-after", "30s")
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
		probe := &corev1.Probe{PeriodSeconds: 1}
		pod.Spec.Containers[0].StartupProbe, pod.Spec.Containers[0].ReadinessProbe = probe, probe
		s.put(pod)
		time.Sleep(3 * time.Hour)
		if restarts := s.status(t, pod).ContainerStatuses[0].RestartCount; restarts < 5 {
			t.Fatalf("%d restarts", restarts)
		}
		if n := s.crew.Probes(); n > 2 {
			t.Errorf("%d probes are remembered, of a container that has two", n)
		}
	})
}

// TestAContainerThatCannotBeMadeIsTriedWithGrowingDelays although each failure changes the status, and each change of
// the status leads to a sync.
func TestAContainerThatCannotBeMadeIsTriedWithGrowingDelays(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.noCreates = true
		pod := newPod("uid")
		s.put(pod)
		for range 600 {
			time.Sleep(time.Second)
			s.crew.Changed(keyOf(pod))
		}
		s.mu.Lock()
		tried := s.creates
		s.noCreates = false
		s.mu.Unlock()
		if tried < 40 || tried > 80 {
			t.Errorf("it was tried %d times in ten minutes", tried)
		}
		if w := s.status(t, pod).ContainerStatuses[0].State.Waiting; w == nil || w.Reason != "CreateContainerError" {
			t.Errorf("it waits because of %+v", w)
		}
		time.Sleep(time.Minute)
		if phase := s.status(t, pod).Phase; phase != corev1.PodRunning {
			t.Errorf("when it can be made, the pod is %s", phase)
		}
	})
}

func TestAnotherImageStartsAtOnceAndWithTheShortestBackOff(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		pod := newPod("uid", "crashes", "100")
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
		restarts := func() int32 { return s.status(t, pod).ContainerStatuses[0].RestartCount }
		s.put(pod)
		time.Sleep(time.Hour)
		before := restarts()
		time.Sleep(time.Minute)
		if now := restarts(); now > before+1 {
			t.Fatalf("%d restarts in a minute after an hour of crashes", now-before)
		}
		before = restarts()
		now, _ := s.wanted(keyOf(pod))
		now = now.DeepCopy()
		now.Spec.Containers[0].Image = "example.com/app:2"
		s.put(now)
		time.Sleep(time.Minute) // runs of a second, then 0, 10 and 20 s
		if n := restarts() - before; n < 3 || n > 5 {
			t.Errorf("%d restarts in the first minute of another image", n)
		}
	})
}
