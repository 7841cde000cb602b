package podview

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/loop"
)

func example(i int) *corev1.Pod {
	yes, seconds := true, int64(300)
	toleration := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("web-6d4cf56db6-%05d", i), Namespace: "default", UID: types.UID(fmt.Sprintf("1d0f4f53-52c5-4b3a-93a5-%012d", i)),
			ResourceVersion: fmt.Sprint(i), Labels: map[string]string{"app": "web", "pod-template-hash": "6d4cf56db6"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-6d4cf56db6", UID: "abc", Controller: &yes, BlockOwnerDeletion: &yes}},
			Annotations:     map[string]string{"note": "long", corev1.PodDeletionCost: "3"},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-1", Tolerations: []corev1.Toleration{toleration("node.kubernetes.io/not-ready"), toleration("node.kubernetes.io/unreachable")},
			Containers: []corev1.Container{{Name: "main", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80, Protocol: corev1.ProtocolTCP}}}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
			},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", RestartCount: 2}},
		},
	}
}

func TestViewKeepsWhatLoopsRead(t *testing.T) {
	p := Of(example(1))
	_, disrupted := p.Condition(corev1.DisruptionTarget)
	if !p.Ready || !p.Active() || p.ControllerUID() != "abc" || p.IPs[0] != "10.0.0.1" || p.MostRestarts != 2 || !disrupted ||
		len(p.Annotations) != 1 || p.Annotations[corev1.PodDeletionCost] != "3" {
		t.Errorf("%+v", p)
	}
}

func TestPodsOfOneControllerShareTheirTemplatesParts(t *testing.T) {
	var s pool
	_, _ = s.share(Of(example(1)))
	p, _ := s.share(Of(example(2)))
	q, _ := s.share(Of(example(3)))
	if &p.Tolerations[0] != &q.Tolerations[0] || p.OwnerReferences[0].Controller != q.OwnerReferences[0].Controller {
		t.Error("nothing is shared")
	}
	if &p.OwnerReferences[0] == &q.OwnerReferences[0] {
		t.Error("a list is shared that informers write to")
	}
	odd := example(4)
	odd.Labels = map[string]string{"app": "other"}
	if o, _ := s.share(Of(odd)); o.Labels["app"] != "other" || p.Labels["app"] != "web" {
		t.Error("labels of one pod went to another")
	}
}

func TestAllLoopsOfAProcessShareOneInformer(t *testing.T) {
	server := func(host string) *loop.Clients {
		return loop.ClientsFor(kubernetes.NewForConfigOrDie(&rest.Config{Host: host}))
	}
	c := server("one")
	if Informer(c) != Informer(c.Named("another-loop")) {
		t.Error("two loops have two informers")
	}
	if Informer(c) == Informer(server("other")) {
		t.Error("two servers have one informer")
	}
}

// The interesting result is the memory per pod.
func BenchmarkMemoryOfAView(b *testing.B) {
	var s pool
	var before, after runtime.MemStats
	for b.Loop() {
		views := make([]*Pod, 10000)
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range views {
			views[i], _ = s.share(Of(example(i)))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(views)), "B/pod")
		runtime.KeepAlive(views)
	}
}
