package demand_test

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/millrace/millrace/internal/randomly"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	peer "k8s.io/component-helpers/resource"

	"github.com/millrace/millrace/internal/demand"
)

// dice makes random pods from few values, so that equal and missing ones are frequent.
type dice struct{ *rand.Rand }

func (d dice) list() corev1.ResourceList {
	l := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.com/device"} {
		if d.IntN(2) == 0 {
			l[name] = *resource.NewMilliQuantity(int64(d.IntN(4)*1000), resource.DecimalSI)
		}
	}
	return l
}

func (d dice) requirements() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: d.list(), Limits: d.list()}
}

func (d dice) containers(prefix string, most int) []corev1.Container {
	var all []corev1.Container
	for i := range d.IntN(most) {
		all = append(all, corev1.Container{Name: prefix + strconv.Itoa(i), Resources: d.requirements()})
	}
	return all
}

func (d dice) pod() *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: d.containers("c", 4), InitContainers: d.containers("i", 4)}}
	for i := range pod.Spec.InitContainers {
		if d.IntN(2) == 0 {
			pod.Spec.InitContainers[i].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
	}
	if d.IntN(3) == 0 {
		pod.Spec.Overhead = d.list()
	}
	if d.IntN(3) == 0 {
		pod.Spec.Resources = new(d.requirements())
	}
	pod.Status.ContainerStatuses = d.statuses(pod.Spec.Containers)
	pod.Status.InitContainerStatuses = d.statuses(pod.Spec.InitContainers)
	if d.IntN(3) == 0 {
		reason := []string{corev1.PodReasonInfeasible, corev1.PodReasonDeferred}[d.IntN(2)]
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: reason}}
	}
	return pod
}

func (d dice) statuses(containers []corev1.Container) []corev1.ContainerStatus {
	var all []corev1.ContainerStatus
	for i := range containers {
		s := corev1.ContainerStatus{Name: containers[i].Name}
		switch d.IntN(4) {
		case 0:
			continue
		case 1:
			s.AllocatedResources = d.list()
		case 2:
			s.AllocatedResources = d.list()
			s.Resources = new(d.requirements())
		}
		all = append(all, s)
	}
	return all
}

func same(a, b corev1.ResourceList) bool {
	for name, q := range a {
		if other := b[name]; q.Cmp(other) != 0 {
			return false
		}
	}
	for name, q := range b {
		if other := a[name]; q.Cmp(other) != 0 {
			return false
		}
	}
	return true
}

func TestSumsAreThoseOfKubernetes(t *testing.T) {
	seed := randomly.Seed(t)
	d := dice{rand.New(rand.NewPCG(seed, 0))}
	options := peer.PodResourcesOptions{UseStatusResources: true}
	assumed := options
	assumed.NonMissingContainerRequests = list("cpu", "100m", "memory", "200Mi")
	for range 2000 {
		pod := d.pod()
		want := peer.PodRequests(pod, options)
		if got := demand.RequestList(pod); !same(got, want) {
			t.Fatalf("requests of %+v:\n%v\nwant\n%v", pod, got, want)
		}
		if got, want := demand.Requests(pod), demand.ResourcesOf(want); !sameResources(got, want) {
			t.Fatalf("requests of %+v:\n%v\nwant\n%v", pod, got, want)
		}
		if got, want := demand.LimitList(pod), peer.PodLimits(pod, options); !same(got, want) {
			t.Fatalf("limits of %+v:\n%v\nwant\n%v", pod, got, want)
		}
		if got, want := demand.ScoredRequests(pod), demand.ResourcesOf(peer.PodRequests(pod, assumed)); got.MilliCPU != want.MilliCPU || got.Memory != want.Memory {
			t.Fatalf("scored requests of %+v:\n%v\nwant\n%v", pod, got, want)
		}
		if got, want := demand.SpecRequests(&pod.Spec), demand.ResourcesOf(peer.PodRequests(pod, peer.PodResourcesOptions{})); !sameResources(got, want) {
			t.Fatalf("requests of the spec of %+v:\n%v\nwant\n%v", pod, got, want)
		}
	}
}

// sameResources compares amounts; zero equals a missing amount.
func sameResources(a, b demand.Resources) bool {
	for _, r := range []*demand.Resources{&a, &b} {
		for name, amount := range r.Extended {
			if amount == 0 {
				delete(r.Extended, name)
			}
		}
	}
	return a.Equal(b)
}
