package hollow

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func asks(cpu string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
}

func TestANodeRefusesWhatDoesNotFit(t *testing.T) {
	small := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("3")}
	inCluster(t, Options{Capacity: small, Taints: []corev1.Taint{{Key: "own", Value: "a", Effect: corev1.TaintEffectNoExecute}}}, func(t *testing.T, c *cluster) {
		pass(time.Second)
		mayStay := func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "own", Operator: corev1.TolerationOpExists}}
		}
		port := func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, Protocol: corev1.ProtocolTCP}}
		}
		elsewhere := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "fast"} }
		for _, step := range []struct {
			name, reason, message string
			edits                 []func(*corev1.Pod)
		}{
			{"first", "", "", []func(*corev1.Pod){mayStay, asks("1500m"), port}},
			{"large", "OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000", []func(*corev1.Pod){mayStay, asks("600m")}},
			{"port", "NodePorts", "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports", []func(*corev1.Pod){mayStay, port}},
			{"tainted", "TaintToleration", "Pod was rejected: Predicate TaintToleration failed: node(s) had untolerated taint {own: a}", nil},
			{"elsewhere", "NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector", []func(*corev1.Pod){mayStay, elsewhere}},
			{"second", "", "", []func(*corev1.Pod){mayStay, asks("500m")}},
			{"third", "", "", []func(*corev1.Pod){mayStay}},
			{"fourth", "OutOfpods", "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3", []func(*corev1.Pod){mayStay}},
		} {
			c.create(step.name, step.edits...)
			pass(5 * time.Second)
			p, want := c.pod(step.name), corev1.PodRunning
			if step.reason != "" {
				want = corev1.PodFailed
			}
			if p.Status.Phase != want || p.Status.Reason != step.reason || p.Status.Message != step.message {
				t.Errorf("pod %s is %s, %q: %q", step.name, p.Status.Phase, p.Status.Reason, p.Status.Message)
			}
		}
	})
}

func TestPodsThatEndOrDisappearReleaseTheirResources(t *testing.T) {
	small := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	once := func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }
	inCluster(t, Options{Capacity: small}, func(t *testing.T, c *cluster) {
		for i := range 3 {
			name := fmt.Sprintf("ends-%d", i)
			c.create(name, asks("1"), once, scripted("run-for=1s"))
			pass(5 * time.Second)
			if p := c.pod(name); p.Status.Phase != corev1.PodSucceeded {
				t.Fatalf("pod %s is %+v", name, p.Status)
			}
		}
		for i := range 3 {
			c.create("again", asks("1"), once)
			pass(5 * time.Second)
			if p := c.pod("again"); p.Status.Phase != corev1.PodRunning {
				t.Fatalf("at time %d the pod is %+v", i, p.Status)
			}
			grace := int64(0)
			if err := c.kube.CoreV1().Pods("default").Delete(t.Context(), "again", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
				t.Fatal(err)
			}
			pass(40 * time.Second)
		}
	})
}

func TestResizeKeepsTheCountRight(t *testing.T) {
	r := newRooms(withDefaults(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}))
	pod := func(name, cpu string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.NodeName, p.Spec.Containers = "hollow-0", make([]corev1.Container, 1)
		asks(cpu)(p)
		return p
	}
	for _, name := range []string{"a", "b"} {
		if why := r.admit(pod(name, "1")); why != nil {
			t.Fatal(why)
		}
	}
	for _, step := range []struct{ name, cpu, reason string }{
		{"a", "3", corev1.PodReasonInfeasible},
		{"a", "1500m", corev1.PodReasonDeferred},
		{"b", "500m", ""},
		{"a", "1500m", ""},
		{"b", "600m", corev1.PodReasonDeferred},
		{"gone", "2", ""},
	} {
		reason := ""
		if why := r.resize(pod(step.name, step.cpu)); why != nil {
			reason = why.Reason
		}
		if reason != step.reason {
			t.Errorf("%s to %s: %q, want %q", step.name, step.cpu, reason, step.reason)
		}
	}
}
