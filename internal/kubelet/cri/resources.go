package cri

import (
	"os"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	defaultPeriod = 100 * time.Millisecond
	minQuota      = 1_000 // microseconds
	minShare      = 2
	maxShare      = 262_144

	scoreGuaranteed = -997
	scoreBestEffort = 1000
)

// resources converts requests and limits to cgroup settings.
func (r *Runtime) resources(pod *corev1.Pod, c *corev1.Container) *runtimeapi.LinuxContainerResources {
	all := &runtimeapi.LinuxContainerResources{OomScoreAdj: score(pod, c)}
	cpu, asked := c.Resources.Requests.Cpu(), !c.Resources.Requests.Cpu().IsZero()
	if !asked {
		cpu = c.Resources.Limits.Cpu()
	}
	all.CpuShares = min(max(cpu.MilliValue()*1024/1000, minShare), maxShare)
	if limit := c.Resources.Limits.Cpu(); !limit.IsZero() && !r.NoCPUQuota {
		all.CpuPeriod = r.CPUPeriod.Microseconds()
		all.CpuQuota = max(limit.MilliValue()*all.CpuPeriod/1000, minQuota)
	}
	if limit := c.Resources.Limits.Memory(); !limit.IsZero() {
		all.MemoryLimitInBytes = limit.Value()
	}
	if r.PIDs > 0 && unified() {
		all.Unified = map[string]string{"pids.max": strconv.FormatInt(r.PIDs, 10)}
	}
	return all
}

// unified reports whether control groups are those of version 2. The runtime interface has no limit of processes for
// the others.
var unified = sync.OnceValue(func() bool {
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	return err == nil
})

// score returns the oom_score_adj of a container: the lower its memory request, the sooner it is killed.
func score(pod *corev1.Pod, c *corev1.Container) int64 {
	switch pod.Status.QOSClass {
	case corev1.PodQOSGuaranteed:
		return scoreGuaranteed
	case corev1.PodQOSBestEffort:
		return scoreBestEffort
	}
	asked, all := c.Resources.Requests.Memory().Value(), totalMemory()
	if all == 0 {
		return scoreBestEffort - 1
	}
	return min(max(1000-1000*asked/all, 3), 999)
}
