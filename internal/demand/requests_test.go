package demand_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace/millrace/internal/demand"
)

func asked(cpu, memory string) corev1.ResourceList {
	l := corev1.ResourceList{}
	if cpu != "" {
		l[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		l[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return l
}

func asking(cpu, memory string) corev1.Container {
	return corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: asked(cpu, memory)}}
}

func sidecar(cpu, memory string) corev1.Container {
	c := asking(cpu, memory)
	always := corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

func TestRequestsOfAPod(t *testing.T) {
	type list = []corev1.Container
	for _, c := range []struct {
		name                    string
		spec                    corev1.PodSpec
		cpu, memory             int64
		scoredCPU, scoredMemory int64
	}{
		{
			name:      "nothing asked counts a little in scores",
			spec:      corev1.PodSpec{Containers: list{asking("", "")}},
			scoredCPU: 100, scoredMemory: 200 << 20,
		},
		{
			name: "containers add up",
			spec: corev1.PodSpec{Containers: list{asking("100m", "1Mi"), asking("200m", "2Mi")}},
			cpu:  300, memory: 3 << 20, scoredCPU: 300, scoredMemory: 3 << 20,
		},
		{
			name: "the largest init container counts if it is larger",
			spec: corev1.PodSpec{
				InitContainers: list{asking("500m", "1Mi"), asking("400m", "8Mi")},
				Containers:     list{asking("100m", "4Mi")},
			},
			cpu: 500, memory: 8 << 20, scoredCPU: 500, scoredMemory: 8 << 20,
		},
		{
			name: "a sidecar stays",
			spec: corev1.PodSpec{
				InitContainers: list{sidecar("300m", "3Mi")},
				Containers:     list{asking("100m", "1Mi")},
			},
			cpu: 400, memory: 4 << 20, scoredCPU: 400, scoredMemory: 4 << 20,
		},
		{
			name: "a sidecar adds to the init containers after it only",
			spec: corev1.PodSpec{
				InitContainers: list{asking("900m", "1Mi"), sidecar("300m", "1Mi"), asking("700m", "1Mi")},
				Containers:     list{asking("100m", "1Mi")},
			},
			cpu: 1000, memory: 2 << 20, scoredCPU: 1000, scoredMemory: 2 << 20,
		},
		{
			name: "overhead is added",
			spec: corev1.PodSpec{Containers: list{asking("100m", "1Mi")}, Overhead: asked("50m", "1Mi")},
			cpu:  150, memory: 2 << 20, scoredCPU: 150, scoredMemory: 2 << 20,
		},
		{
			name: "what the pod asks for itself replaces the sum",
			spec: corev1.PodSpec{
				Containers: list{asking("100m", "")},
				Resources:  &corev1.ResourceRequirements{Requests: asked("", "64Mi")},
				Overhead:   asked("", "1Mi"),
			},
			cpu: 100, memory: 65 << 20, scoredCPU: 100, scoredMemory: 65 << 20,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: c.spec}
			requests, scored := demand.Requests(pod), demand.ScoredRequests(pod)
			if requests.MilliCPU != c.cpu || requests.Memory != c.memory {
				t.Errorf("requests %+v, want %d and %d", requests, c.cpu, c.memory)
			}
			if scored.MilliCPU != c.scoredCPU || scored.Memory != c.scoredMemory {
				t.Errorf("scored %+v, want %d and %d", scored, c.scoredCPU, c.scoredMemory)
			}
		})
	}
}

func TestResizeCountsTheLargerUntilTheNodeRefuses(t *testing.T) {
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{asking("2", "1Gi")}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "c", AllocatedResources: asked("1", "2Gi"),
			Resources: &corev1.ResourceRequirements{Requests: asked("1", "2Gi")},
		}}},
	}
	if r := demand.Requests(pod); r.MilliCPU != 2000 || r.Memory != 2<<30 {
		t.Errorf("while it is under way: %+v", r)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
	if r := demand.Requests(pod); r.MilliCPU != 1000 || r.Memory != 2<<30 {
		t.Errorf("when it is refused: %+v", r)
	}
}
