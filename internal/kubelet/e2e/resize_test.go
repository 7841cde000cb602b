//go:build linux

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
	r.resize("grows", "150m", "48Mi")
	r.has("grows", "150m", "48Mi")
	got := r.kubectl("exec", "grows", "--", "sh", "-c", "cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes cpu/cpu.cfs_quota_us 2>/dev/null || cat memory.max cpu.max")
	if fields := strings.Fields(got); len(fields) < 2 || fields[0] != fmt.Sprint(48<<20) || fields[1] != "15000" {
		t.Errorf("the control group says %q", got)
	}
	r.resize("grows", "1000", "48Mi")
	r.holds("grows", corev1.PodResizePending, "Infeasible", fmt.Sprintf("Node didn't have enough capacity: cpu, requested: 1000000, capacity: %d", room))
	r.resize("grows", "800m", "48Mi")
	r.holds("grows", corev1.PodResizePending, "Deferred", "Node didn't have enough resource: cpu, requested: 800, used: ")
	if m := of(&r.get("grows").Status, "main"); m.Resources.Limits.Cpu().String() != "150m" || m.AllocatedResources.Cpu().String() != "150m" {
		t.Errorf("while it waits the container has %+v", m)
	}
	r.told("grows", "ResizeDeferred", "Node didn't have enough resource")
	r.kubectl("delete", "pod", "big")
	r.has("grows", "800m", "48Mi")
	r.told("grows", "ResizeCompleted", "Pod resize completed")
	r.same(before)
	r.shrinks(sized("100m", "64Mi"))
}

// shrinks: who uses more than it is to have keeps what it has.
func (r *room) shrinks(resources string) {
	r.pod("hungry", "head -c 30000000 /dev/zero >/own/much; echo full; "+rests, resources, "    volumeMounts: [{name: own, mountPath: /own}]",
		"  volumes: [{name: own, emptyDir: {medium: Memory}}]")
	before := r.ready("hungry")
	eventually(r.t, "it uses much", func() bool { return r.kubectl("logs", "hungry") == "full\n" })
	r.resize("hungry", "100m", "16Mi")
	r.holds("hungry", corev1.PodResizeInProgress, corev1.PodReasonError, "attempting to set memory limit (16777216) below current usage (")
	if m := of(&r.get("hungry").Status, "main"); m.Resources.Limits.Memory().String() != "64Mi" || m.AllocatedResources.Memory().String() != "16Mi" {
		r.t.Errorf("the container has %+v and %v", m.Resources, m.AllocatedResources)
	}
	r.resize("hungry", "100m", "48Mi")
	r.has("hungry", "100m", "48Mi")
	r.same(before)
}

func (r *room) resize(name, cpu, memory string) {
	r.t.Helper()
	r.kubectl("patch", "pod", name, "--subresource", "resize", "-p",
		fmt.Sprintf(`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":%q,"memory":%q},"limits":{"cpu":%q,"memory":%q}}}]}}`, cpu, memory, cpu, memory))
}

// has waits until a resize is done.
func (r *room) has(name, cpu, memory string) {
	r.t.Helper()
	r.until(name, "resized", func(s *corev1.PodStatus) bool {
		m := of(s, "main")
		return m.Resources.Limits.Cpu().String() == cpu && m.Resources.Limits.Memory().String() == memory && m.AllocatedResources.Cpu().String() == cpu &&
			condition(s, corev1.PodResizePending) == "" && condition(s, corev1.PodResizeInProgress) == ""
	})
}

// holds waits until a condition is true for a reason.
func (r *room) holds(name string, kind corev1.PodConditionType, reason, text string) {
	r.t.Helper()
	r.until(name, reason, func(s *corev1.PodStatus) bool {
		for _, c := range s.Conditions {
			if c.Type == kind {
				return c.Status == corev1.ConditionTrue && c.Reason == reason && strings.Contains(c.Message, text)
			}
		}
		return false
	})
}
