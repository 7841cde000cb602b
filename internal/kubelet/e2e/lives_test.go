package e2e

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/hollow"
)

// part is one container of a life.
type part struct {
	name string
	play play
	more func(pod *corev1.Pod, c *corev1.Container)
}

func (p part) add(pod *corev1.Pod) corev1.Container {
	c := corev1.Container{Name: p.name}
	p.play.act(pod, &c)
	if p.more != nil {
		p.more(pod, &c)
	}
	return c
}

var always = corev1.ContainerRestartPolicyAlways

func sidecar(_ *corev1.Pod, c *corev1.Container) { c.RestartPolicy = &always }

func probe(command string) *corev1.Probe {
	p := &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1, SuccessThreshold: 1, TimeoutSeconds: 5}
	p.Exec = &corev1.ExecAction{Command: []string{command}}
	return p
}

func unhealthy(pod *corev1.Pod, c *corev1.Container) {
	c.LivenessProbe = probe("false")
	pod.Annotations[hollow.Prefix+"unhealthy-after."+c.Name] = "0s"
}

// life is a pod, and what becomes of it.
type life struct {
	name   string
	policy corev1.RestartPolicy
	init   []part
	parts  []part
	edit   func(*corev1.Pod)
	story  func(*testing.T, *stage, *corev1.Pod)
}

var lives = []life{
	{name: "a pod runs, and ends when it is deleted", parts: []part{{name: "main", play: play{lasts: true}}}, story: runsAndEnds},
	{name: "a pod whose work is done succeeds", policy: corev1.RestartPolicyNever, parts: []part{{name: "main", play: play{after: 100 * time.Millisecond, says: "done"}}},
		story: func(t *testing.T, s *stage, pod *corev1.Pod) {
			status := s.until(pod, "Succeeded", in(corev1.PodSucceeded))
			ended := of(status, "main").State.Terminated
			if ended == nil || ended.ExitCode != 0 || ended.Reason != "Completed" || ended.Message != "done" {
				t.Errorf("the container ended as %+v", ended)
			}
			if ready(status) || condition(status, corev1.PodInitialized) != corev1.ConditionTrue {
				t.Errorf("the conditions are %+v", status.Conditions)
			}
		}},
	{name: "a pod that fails and is not restarted has failed", policy: corev1.RestartPolicyNever, parts: []part{{name: "main", play: play{after: 100 * time.Millisecond, code: 3}}},
		story: func(t *testing.T, s *stage, pod *corev1.Pod) {
			status := s.until(pod, "Failed", in(corev1.PodFailed))
			if ended := of(status, "main").State.Terminated; ended == nil || ended.ExitCode != 3 || ended.Reason != "Error" {
				t.Errorf("the container ended as %+v", ended)
			}
		}},
	{name: "a container that crashes is restarted after longer and longer waits", parts: []part{{name: "main", play: play{after: 50 * time.Millisecond, code: 1}}}, story: crashes},
	{name: "init containers run one after the other before all else", init: []part{{name: "first", play: play{after: 100 * time.Millisecond}}, {name: "second", play: play{after: 100 * time.Millisecond}}},
		parts: []part{{name: "main", play: play{lasts: true}}}, story: initialized},
	{name: "an init container that fails for good fails its pod", policy: corev1.RestartPolicyNever, init: []part{{name: "first", play: play{code: 1, after: 50 * time.Millisecond}}},
		parts: []part{{name: "main", play: play{lasts: true}}},
		story: func(t *testing.T, s *stage, pod *corev1.Pod) {
			status := s.until(pod, "Failed", in(corev1.PodFailed))
			if of(status, "main").ContainerID != "" || condition(status, corev1.PodInitialized) == corev1.ConditionTrue {
				t.Errorf("the main container was started: %+v", status)
			}
		}},
	{name: "sidecars start before and end after the rest", policy: corev1.RestartPolicyNever, init: []part{{name: "side", play: play{lasts: true}, more: sidecar}},
		parts: []part{{name: "main", play: play{after: 300 * time.Millisecond}}}, story: sidecars},
	{name: "a pod that is active for too long fails, after its grace period", parts: []part{{name: "main", play: play{lasts: true, ends: time.Second}}}, edit: func(p *corev1.Pod) {
		p.Spec.ActiveDeadlineSeconds, p.Spec.TerminationGracePeriodSeconds = new(int64(5)), new(int64(60))
	}, story: tooLong},
	{name: "a pod can be deleted while its postStart hook runs", parts: []part{{name: "main", play: play{lasts: true}, more: func(_ *corev1.Pod, c *corev1.Container) {
		c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3600}}}
	}}}, story: endsInHook},
	{name: "a kubelet that starts anew keeps what probes have found", parts: []part{{name: "main", play: play{lasts: true}, more: func(_ *corev1.Pod, c *corev1.Container) {
		c.ReadinessProbe, c.StartupProbe = probe("true"), probe("true")
		c.StartupProbe.Exec.Command = []string{"mkdir", "/once"} // passes only once
	}}}, story: staysReady},
	{name: "who does not end within its grace is killed", parts: []part{{name: "main", play: play{lasts: true, slow: true}}}, edit: func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(1)) },
		story: func(_ *testing.T, s *stage, pod *corev1.Pod) {
			s.until(pod, "ready", ready)
			s.remove(pod)
			s.gone(pod)
		}},
	{name: "a container that is unhealthy is replaced", parts: []part{{name: "main", play: play{lasts: true}, more: unhealthy}},
		story: func(t *testing.T, s *stage, pod *corev1.Pod) {
			s.until(pod, "restarted", func(st *corev1.PodStatus) bool { return of(st, "main").RestartCount > 0 })
			if !s.told("Unhealthy") || !s.told("Killing") {
				t.Errorf("the events are %q", s.events)
			}
		}},
	{name: "a pod is ready when its probes say so", parts: []part{{name: "main", play: play{lasts: true}, more: func(_ *corev1.Pod, c *corev1.Container) {
		c.ReadinessProbe, c.StartupProbe = probe("true"), probe("true")
	}}}, story: func(_ *testing.T, s *stage, pod *corev1.Pod) {
		s.until(pod, "running and unready", func(st *corev1.PodStatus) bool { return st.Phase == corev1.PodRunning && !ready(st) })
		s.until(pod, "ready", ready)
	}},
	{name: "resources change in place", parts: []part{{name: "main", play: play{lasts: true}, more: sized}},
		story: func(t *testing.T, s *stage, pod *corev1.Pod) { resizes(t, s, pod, 0) }},
	{name: "resources change with a restart where the pod says so", parts: []part{{name: "main", play: play{lasts: true}, more: func(p *corev1.Pod, c *corev1.Container) {
		sized(p, c)
		c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	}}}, story: func(t *testing.T, s *stage, pod *corev1.Pod) { resizes(t, s, pod, 1) }},
	{name: "a new pod of an old name waits for the old one to end", parts: []part{{name: "main", play: play{lasts: true}}}, story: successor},
	{name: "a kubelet that starts anew neither restarts nor forgets", parts: []part{{name: "main", play: play{lasts: true}}}, story: restarted},
	{name: "who has several containers runs when all do", parts: []part{{name: "one", play: play{lasts: true}}, {name: "two", play: play{lasts: true}}},
		story: func(t *testing.T, s *stage, pod *corev1.Pod) {
			status := s.until(pod, "ready", ready)
			if len(status.ContainerStatuses) != 2 || status.ContainerStatuses[0].Name != "one" {
				t.Errorf("the containers are %+v", status.ContainerStatuses)
			}
		}},
}

func (l life) pod() *corev1.Pod {
	p := pod()
	if l.policy != "" {
		p.Spec.RestartPolicy = l.policy
	}
	for _, i := range l.init {
		p.Spec.InitContainers = append(p.Spec.InitContainers, i.add(p))
	}
	for _, i := range l.parts {
		p.Spec.Containers = append(p.Spec.Containers, i.add(p))
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			list[i].TerminationMessagePath = "/dev/termination-log"
		}
	}
	if l.edit != nil {
		l.edit(p)
	}
	return p
}

func TestLivesOfPretendedPods(t *testing.T) {
	for _, l := range lives {
		t.Run(l.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := hollow.NewRuntime(func(string) string { return "10.64.0.0/24" })
				s := newStage(t, r, r, false)
				l.story(t, s, s.put(l.pod()))
			})
		})
	}
}

func TestLivesOfRealPods(t *testing.T) {
	socket(t)
	for _, l := range lives {
		t.Run(l.name, func(t *testing.T) {
			r := openCRI(t)
			s := newStage(t, r, r, true)
			l.story(t, s, s.put(l.pod()))
		})
	}
}

func runsAndEnds(t *testing.T, s *stage, pod *corev1.Pod) {
	status := s.until(pod, "ready", ready)
	c := of(status, "main")
	switch {
	case status.Phase != corev1.PodRunning, status.PodIP == "", status.HostIP == "", status.StartTime == nil, len(status.PodIPs) != 1:
		t.Errorf("the status is %+v", status)
	case c.State.Running == nil, !c.Ready, c.Started == nil, !*c.Started, c.ContainerID == "", c.ImageID == "", c.Image != image:
		t.Errorf("the container is %+v", c)
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodScheduled} {
		if condition(status, kind) != corev1.ConditionTrue {
			t.Errorf("the condition %s is %q", kind, condition(status, kind))
		}
	}
	for _, reason := range []string{"Pulled", "Created", "Started"} {
		if !s.told(reason) {
			t.Errorf("no event %s among %q", reason, s.events)
		}
	}
	s.remove(pod)
	s.gone(pod)
	s.clear()
	if left, err := s.options.Runtime.Pod(s.ctx, pod.UID); err != nil || len(left.Containers)+len(left.Sandboxes) > 0 {
		t.Errorf("of a pod that is gone the runtime has %+v, %v", left, err)
	}
}

func crashes(t *testing.T, s *stage, pod *corev1.Pod) {
	status := s.until(pod, "in back-off", func(st *corev1.PodStatus) bool {
		w := of(st, "main").State.Waiting
		return w != nil && w.Reason == "CrashLoopBackOff"
	})
	if ended := of(status, "main").LastTerminationState.Terminated; ended == nil || ended.ExitCode != 1 {
		t.Errorf("before it waited the container ended as %+v", ended)
	}
	if status.Phase != corev1.PodRunning {
		t.Errorf("the phase is %s", status.Phase)
	}
	s.until(pod, "restarted three times", func(st *corev1.PodStatus) bool { return of(st, "main").RestartCount >= 3 })
	if left, err := s.options.Runtime.Pod(s.ctx, pod.UID); err != nil || len(left.Containers) > 3 { // one that starts, and two before it
		t.Errorf("of a pod that crashes again and again there are %d runs, %v", len(left.Containers), err)
	}
	if !s.told("BackOff") {
		t.Errorf("the events are %q", s.events)
	}
	s.remove(pod)
	s.gone(pod)
}

func initialized(t *testing.T, s *stage, pod *corev1.Pod) {
	early := s.until(pod, "initializing", func(st *corev1.PodStatus) bool { return of(st, "first").State.Running != nil })
	if w := of(early, "main").State.Waiting; early.Phase != corev1.PodPending || w == nil || w.Reason != "PodInitializing" || of(early, "second").ContainerID != "" {
		t.Errorf("while the first runs the status is %+v", early)
	}
	status := s.until(pod, "ready", ready)
	first, second, main := of(status, "first").State.Terminated, of(status, "second").State.Terminated, of(status, "main").State.Running
	if first == nil || second == nil || main == nil {
		t.Fatalf("the status is %+v", status)
	}
	if second.StartedAt.Before(&first.FinishedAt) || main.StartedAt.Before(&second.FinishedAt) {
		t.Errorf("the order was %v–%v, %v–%v, %v", first.StartedAt, first.FinishedAt, second.StartedAt, second.FinishedAt, main.StartedAt)
	}
}

func sidecars(t *testing.T, s *stage, pod *corev1.Pod) {
	running := s.until(pod, "running", in(corev1.PodRunning))
	if of(running, "side").State.Running == nil {
		t.Errorf("while the pod runs the sidecar is %+v", of(running, "side"))
	}
	status := s.until(pod, "Succeeded", in(corev1.PodSucceeded))
	side, main := of(status, "side").State.Terminated, of(status, "main").State.Terminated
	if side == nil || main == nil || side.FinishedAt.Before(&main.FinishedAt) {
		t.Errorf("the sidecar ended as %+v, the rest as %+v", side, main)
	}
}

// amounts are resources of a container.
func amounts(cpu, memory string) corev1.ResourceRequirements {
	all := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	return corev1.ResourceRequirements{Requests: all, Limits: all}
}

func sized(p *corev1.Pod, c *corev1.Container) {
	p.Generation, p.Status.QOSClass = 1, corev1.PodQOSGuaranteed
	c.Resources = amounts("100m", "32Mi")
}

func resizes(t *testing.T, s *stage, pod *corev1.Pod, restarts int32) {
	before := of(s.until(pod, "ready", ready), "main")
	if before.Resources == nil || before.Resources.Limits.Cpu().String() != "100m" || before.AllocatedResources.Memory().String() != "32Mi" {
		t.Errorf("before the resize the container has %+v, %v", before.Resources, before.AllocatedResources)
	}
	s.change(pod, func(p *corev1.Pod) {
		p.Generation++
		p.Spec.Containers[0].Resources = amounts("200m", "48Mi")
	})
	status := s.until(pod, "resized", func(st *corev1.PodStatus) bool {
		c := of(st, "main")
		return c.Resources != nil && c.Resources.Limits.Cpu().String() == "200m" && c.State.Running != nil && condition(st, corev1.PodResizeInProgress) == ""
	})
	after := of(status, "main")
	if after.RestartCount != restarts || (after.ContainerID == before.ContainerID) != (restarts == 0) || after.AllocatedResources.Memory().String() != "48Mi" || status.ObservedGeneration != 2 {
		t.Errorf("after the resize the container is %+v", after)
	}
	if !s.told("ResizeStarted") || !s.told("ResizeCompleted") {
		t.Errorf("the events are %q", s.events)
	}
	s.remove(pod)
	s.gone(pod)
}

func successor(t *testing.T, s *stage, pod *corev1.Pod) {
	s.until(pod, "ready", ready)
	next := pod.DeepCopy()
	next.UID, next.Status = "", corev1.PodStatus{}
	s.put(next)
	s.until(next, "ready", ready)
	old, err := s.options.Runtime.Pod(s.ctx, pod.UID)
	if err != nil || old.Runs() {
		t.Errorf("the old pod still runs: %+v, %v", old, err)
	}
	s.remove(next)
	s.gone(next)
}

func tooLong(t *testing.T, s *stage, pod *corev1.Pod) {
	s.until(pod, "ready", ready)
	status := s.until(pod, "out of service", func(st *corev1.PodStatus) bool { return st.Phase == corev1.PodFailed || !ready(st) })
	if status.Phase != corev1.PodRunning || of(status, "main").State.Running == nil {
		t.Errorf("while its container stops, the pod is %+v", status)
	}
	status = s.until(pod, "Failed", in(corev1.PodFailed))
	if ended := of(status, "main").State.Terminated; status.Reason != "DeadlineExceeded" || ended == nil || ended.ExitCode != 0 {
		t.Errorf("the reason is %q, and the container has ended as %+v", status.Reason, ended)
	}
}

func endsInHook(t *testing.T, s *stage, pod *corev1.Pod) {
	for state := (container.Pod{}); !state.Runs(); s.pause(20 * time.Millisecond) {
		var err error
		if state, err = s.options.Runtime.Pod(s.ctx, pod.UID); err != nil {
			t.Fatal(err)
		}
	}
	s.remove(pod)
	s.gone(pod)
}

func staysReady(t *testing.T, s *stage, pod *corev1.Pod) {
	before := *of(s.until(pod, "ready", ready), "main")
	s.end()
	s.begin()
	s.crew.Changed(keyOf(pod))
	for began := time.Now(); time.Since(began) < 4*time.Second; s.pause(50 * time.Millisecond) { // some periods of the probes
		now, _ := s.wanted(keyOf(pod))
		if c := of(&now.Status, "main"); c.ContainerID != before.ContainerID || !ready(&now.Status) || !*c.Started {
			t.Fatalf("after the restart the container is %+v; before it was %+v", c, before)
		}
	}
	s.remove(pod)
	s.gone(pod)
}

func restarted(t *testing.T, s *stage, pod *corev1.Pod) {
	before := *of(s.until(pod, "ready", ready), "main")
	s.end()
	s.begin()
	s.crew.Changed(keyOf(pod))
	all, err := s.options.Runtime.Pods(s.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(all, func(p container.Pod) bool { return p.UID == pod.UID }); i < 0 || !all[i].Runs() {
		t.Fatalf("the container did not outlive its kubelet: %+v", all)
	}
	for !s.crew.Has(pod.UID) {
		s.pause(10 * time.Millisecond)
	}
	s.pause(300 * time.Millisecond) // as long as it would take to do what must not be done
	state, err := s.options.Runtime.Pod(s.ctx, pod.UID)
	if err != nil || len(state.Containers) != 1 || state.Containers[0].ID != before.ContainerID || len(state.Sandboxes) != 1 {
		t.Errorf("after the restart there is %+v, %v; before it there was %+v", state, err, before)
	}
	s.remove(pod)
	s.gone(pod)
}
