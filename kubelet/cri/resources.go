package cri

import (
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	period   = 100_000 // microseconds of one scheduling period
	minQuota = 1_000
	minShare = 2
	maxShare = 262_144

	scoreGuaranteed = -997
	scoreBestEffort = 1000
)

// resources converts requests and limits to cgroup settings.
func (r *Runtime) resources(pod *corev1.Pod, c *corev1.Container) *runtimeapi.LinuxContainerResources {
	all := resources(pod, c)
	if r.NoCPUQuota {
		all.CpuPeriod, all.CpuQuota = 0, 0
	}
	return all
}

func resources(pod *corev1.Pod, c *corev1.Container) *runtimeapi.LinuxContainerResources {
	r := &runtimeapi.LinuxContainerResources{OomScoreAdj: score(pod, c)}
	cpu, asked := c.Resources.Requests.Cpu(), !c.Resources.Requests.Cpu().IsZero()
	if !asked {
		cpu = c.Resources.Limits.Cpu()
	}
	r.CpuShares = min(max(cpu.MilliValue()*1024/1000, minShare), maxShare)
	if limit := c.Resources.Limits.Cpu(); !limit.IsZero() {
		r.CpuPeriod = period
		r.CpuQuota = max(limit.MilliValue()*period/1000, minQuota)
	}
	if limit := c.Resources.Limits.Memory(); !limit.IsZero() {
		r.MemoryLimitInBytes = limit.Value()
	}
	return r
}

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
