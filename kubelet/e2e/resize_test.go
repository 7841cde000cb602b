package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// resized: containers get other resources while they run, as soon as the node has them.
func resized(t *testing.T, c *cluster) {
	r := c.room(t, "resized")
	sized := func(cpu, memory string) string {
		return fmt.Sprintf("    resources: {requests: {cpu: %s, memory: %s}, limits: {cpu: %s, memory: %s}}", cpu, memory, cpu, memory)
	}
	room := c.self().Status.Allocatable.Cpu().MilliValue()
	r.pod("grows", rests, sized("100m", "32Mi"))
	r.pod("big", rests, sized(fmt.Sprintf("%dm", room-600), "32Mi"))
	before := r.ready("grows")
	r.ready("big")
	resize := func(cpu, memory string) {
		t.Helper()
		r.kubectl("patch", "pod", "grows", "--subresource", "resize", "-p",
			fmt.Sprintf(`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":%q,"memory":%q},"limits":{"cpu":%q,"memory":%q}}}]}}`, cpu, memory, cpu, memory))
	}
	has := func(cpu, memory string) {
		t.Helper()
		r.until("grows", "resized", func(s *corev1.PodStatus) bool {
			m := of(s, "main")
			return m.Resources.Limits.Cpu().String() == cpu && m.Resources.Limits.Memory().String() == memory && m.AllocatedResources.Cpu().String() == cpu &&
				condition(s, corev1.PodResizePending) == "" && condition(s, corev1.PodResizeInProgress) == ""
		})
	}
	pending := func(reason, text string) {
		t.Helper()
		r.until("grows", reason, func(s *corev1.PodStatus) bool {
			for _, c := range s.Conditions {
				if c.Type == corev1.PodResizePending {
					return c.Status == corev1.ConditionTrue && c.Reason == reason && strings.Contains(c.Message, text)
				}
			}
			return false
		})
	}
	resize("150m", "48Mi")
	has("150m", "48Mi")
	got := r.kubectl("exec", "grows", "--", "sh", "-c", "cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes cpu/cpu.cfs_quota_us 2>/dev/null || cat memory.max cpu.max")
	if fields := strings.Fields(got); len(fields) < 2 || fields[0] != fmt.Sprint(48<<20) || fields[1] != "15000" {
		t.Errorf("the control group says %q", got)
	}
	resize("1000", "48Mi")
	pending("Infeasible", fmt.Sprintf("Node didn't have enough capacity: cpu, requested: 1000000, capacity: %d", room))
	resize("800m", "48Mi")
	pending("Deferred", "Node didn't have enough resource: cpu, requested: 800, used: ")
	if m := of(&r.get("grows").Status, "main"); m.Resources.Limits.Cpu().String() != "150m" || m.AllocatedResources.Cpu().String() != "150m" {
		t.Errorf("while it waits the container has %+v", m)
	}
	r.told("grows", "ResizeDeferred", "Node didn't have enough resource")
	r.kubectl("delete", "pod", "big")
	has("800m", "48Mi")
	r.told("grows", "ResizeCompleted", "Pod resize completed")
	r.same(before)
}
