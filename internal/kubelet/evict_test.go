package kubelet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace/millrace/internal/kubelet/pressure"
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

func TestASoftThresholdEvictsAfterItsGracePeriodAndWithALimitedOne(t *testing.T) {
	onNode(t, func(w *world) {
		soft := pressure.Thresholds{pressure.Memory: {Quantity: resource.MustParse("500Mi")}}
		w.options.Eviction = pressure.Limits{Soft: soft, Grace: map[pressure.Signal]time.Duration{pressure.Memory: time.Minute}}
		w.options.EvictionGrace = 5 * time.Second
	}, func(t *testing.T, w *world) {
		w.create(podOf("greedy"))
		w.uses("greedy", 500)
		w.leave(400, 900)
		pass(50 * time.Second)
		if !w.pressed(corev1.NodeMemoryPressure) || w.phase("greedy") != "Running " {
			t.Errorf("before the grace period has passed, greedy is %s, and the node's pressure %v", w.phase("greedy"), w.pressed(corev1.NodeMemoryPressure))
		}
		pass(30 * time.Second)
		if w.phase("greedy") != "Failed Evicted" {
			t.Errorf("greedy is %s", w.phase("greedy"))
		}
	})
	k := &Kubelet{options: Options{EvictionGrace: 5 * time.Second}}
	for grace, s := range map[time.Duration]pressure.Shortage{time.Second: {}, 5 * time.Second: {Soft: true}} {
		if got := k.evictionGrace(s); got != grace {
			t.Errorf("%+v: %v", s, got)
		}
	}
	k.options.EvictionGrace = -1
	if got := k.evictionGrace(pressure.Shortage{Soft: true}); got != 0 {
		t.Errorf("a negative limit is %v", got)
	}
}
