package loops_test

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/controllers"
	"github.com/millrace/millrace/internal/controllers/nodelifecycle"
	"github.com/millrace/millrace/internal/kubelet/hollow"
	"github.com/millrace/millrace/loop"
)

// addSilentNode creates a node without a kubelet: it is ready once, and never updated.
func (w *world) addSilentNode(name string) {
	w.Helper()
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"), corev1.ResourcePods: resource.MustParse("500"),
	}
	now := metav1.Now()
	must(w.kube.CoreV1().Nodes().Create(w.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"silent": "yes"}},
		Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity, Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now, LastTransitionTime: now,
		}}},
	}, metav1.CreateOptions{}))(w)
	must(w.kube.CoordinationV1().Leases("kube-node-lease").Create(w.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: ptr(int32(40)), RenewTime: ptr(metav1.NowMicro())},
	}, metav1.CreateOptions{}))(w)
}

// quickToEvict returns all loops, with a short grace period for nodes that are not updated.
func quickToEvict(grace time.Duration) []loop.Entry {
	entries := controllers.All(controllers.Options{})
	for i := range entries {
		if entries[i].Name == nodelifecycle.Entry.Name {
			entries[i] = nodelifecycle.Options{Grace: grace, StartupGrace: grace}.Entry()
		}
	}
	return entries
}

func TestPodsLeaveANodeThatFallsSilent(t *testing.T) {
	t.Parallel()
	w := bare(t, millrace.Options{Controllers: []string{}})
	l := w.loops(quickToEvict(6*time.Second), func(c *loop.Clients) (loop.Runner, error) {
		return hollow.New(hollow.Options{Clients: c, Nodes: 2, LeaseEvery: 500 * time.Millisecond})
	})
	defer l.stop()
	w.ns = w.namespace()
	w.addSilentNode("away")
	d := deployment("web", 6)
	d.Spec.Template.Spec.Affinity = prefers("silent")
	d.Spec.Template.Spec.Tolerations = []corev1.Toleration{
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr(int64(1))},
	}
	w.deploy(d)
	w.eventually("there are pods on the silent node", func() error {
		if w.podsOn("away") == 0 {
			return fmt.Errorf("there are none")
		}
		return nil
	})
	w.eventually("the node is tainted", func() error {
		node := must(w.kube.CoreV1().Nodes().Get(w.Context(), "away", metav1.GetOptions{}))(w)
		for _, taint := range node.Spec.Taints {
			if taint.Key == corev1.TaintNodeUnreachable && taint.Effect == corev1.TaintEffectNoExecute {
				return nil
			}
		}
		return fmt.Errorf("its taints are %v", node.Spec.Taints)
	})
	w.eventually("six pods run elsewhere", func() error {
		n := 0
		pods := w.pods("app=web")
		for i := range pods {
			if active(&pods[i]) && ready(&pods[i]) && pods[i].Spec.NodeName != "away" {
				n++
			}
		}
		if n != 6 {
			return fmt.Errorf("%d do", n)
		}
		return nil
	})
	w.ok(w.kube.CoreV1().Nodes().Delete(w.Context(), "away", metav1.DeleteOptions{}))
	for _, p := range w.pods("app=web") { // the podgc controller would do that after a minute
		if p.Spec.NodeName == "away" && p.DeletionTimestamp == nil {
			w.Errorf("pod %s was not evicted", p.Name)
		}
	}
}

func prefers(label string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
		Weight:     100,
		Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: label, Operator: corev1.NodeSelectorOpExists}}},
	}}}}
}

// podsOn returns the number of pods on a node.
func (w *world) podsOn(node string) int {
	n := 0
	for _, p := range w.pods("app=web") {
		if p.Spec.NodeName == node {
			n++
		}
	}
	return n
}
