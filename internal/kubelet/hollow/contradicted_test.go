package hollow

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// The node lifecycle controller marks the pods of a silent node as not ready, perhaps before the node has seen its own
// report.
func TestReadinessThatAControllerTakesAwayComesBack(t *testing.T) {
	inCluster(t, Options{Nodes: 1}, func(t *testing.T, c *cluster) {
		taken := false
		c.kube.PrependReactor("update", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			written := action.(clienttesting.UpdateAction).GetObject().(*corev1.Pod)
			ready := condition(written, corev1.PodReady)
			if taken || action.GetSubresource() != "status" || ready == nil || ready.Status != corev1.ConditionTrue {
				return false, nil, nil
			}
			taken = true
			over := written.DeepCopy()
			over.ResourceVersion = "7"
			condition(over, corev1.PodReady).Status = corev1.ConditionFalse
			return true, written, c.kube.Tracker().Update(action.GetResource(), over, over.Namespace)
		})
		c.create("web")
		pass(time.Minute)
		if ready := condition(c.pod("web"), corev1.PodReady); !taken || ready.Status != corev1.ConditionTrue {
			t.Errorf("taken: %v; the pod says %+v", taken, ready)
		}
	})
}

func condition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}
