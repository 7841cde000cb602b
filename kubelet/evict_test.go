package kubelet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestThePodAboveItsRequestIsEvictedWhenMemoryIsShort(t *testing.T) {
	onNode(t, nil, func(t *testing.T, w *world) {
		w.create(podOf("modest", asking("200Mi")))
		w.create(podOf("greedy"))
		w.uses("modest", 100)
		w.uses("greedy", 500)
		w.leave(50, 900)
		pass(pressureEvery)
		if w.phase("greedy") != "Failed Evicted" || w.phase("modest") != "Running " {
			t.Errorf("greedy is %s, modest is %s", w.phase("greedy"), w.phase("modest"))
		}
		if !w.pressed(corev1.NodeMemoryPressure) || w.pressed(corev1.NodeDiskPressure) {
			t.Error("the node does not say what it is short of")
		}
		w.leave(900, 900)
		w.create(podOf("late"))
		w.create(podOf("guaranteed", asking("10Mi")))
		if w.phase("late") != "Failed Evicted" || w.phase("guaranteed") != "Running " {
			t.Errorf("late is %s, guaranteed is %s", w.phase("late"), w.phase("guaranteed"))
		}
		pass(4 * time.Minute)
		if !w.pressed(corev1.NodeMemoryPressure) {
			t.Error("the condition ends before pods may come back")
		}
		pass(2 * time.Minute)
		if w.create(podOf("later")); w.pressed(corev1.NodeMemoryPressure) || w.phase("later") != "Running " {
			t.Errorf("later is %s", w.phase("later"))
		}
	})
}

func TestMemoryIsCheckedWhileTheDiskCheckHangs(t *testing.T) {
	onNode(t, nil, func(t *testing.T, w *world) {
		w.create(podOf("greedy"))
		w.uses("greedy", 500)
		w.runtime.mu.Lock()
		w.runtime.stuck = true
		w.runtime.mu.Unlock()
		w.leave(900, 50)
		pass(pressureEvery)
		if !w.pressed(corev1.NodeDiskPressure) || w.phase("greedy") != "Running " {
			t.Fatalf("greedy is %s while nobody knows who uses the disk", w.phase("greedy"))
		}
		w.leave(50, 50)
		pass(pressureEvery)
		if !w.pressed(corev1.NodeMemoryPressure) || w.phase("greedy") != "Failed Evicted" {
			t.Errorf("greedy is %s", w.phase("greedy"))
		}
	})
}
