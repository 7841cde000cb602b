package cri

import (
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	period     = 100_000 // microseconds of one scheduling period
	leastQuota = 1_000
	leastShare = 2
	mostShare  = 262_144

	scoreGuaranteed = -997
	scoreBestEffort = 1000
)

// resources turns requests and limits into what control groups are told.
func resources(pod *corev1.Pod, c *corev1.Container) *runtimeapi.LinuxContainerResources {
	r := &runtimeapi.LinuxContainerResources{OomScoreAdj: score(pod, c)}
	cpu, asked := c.Resources.Requests.Cpu(), !c.Resources.Requests.Cpu().IsZero()
	if !asked {
		cpu = c.Resources.Limits.Cpu()
	}
	r.CpuShares = min(max(cpu.MilliValue()*1024/1000, leastShare), mostShare)
	if limit := c.Resources.Limits.Cpu(); !limit.IsZero() {
		r.CpuPeriod = period
		r.CpuQuota = max(limit.MilliValue()*period/1000, leastQuota)
	}
	if limit := c.Resources.Limits.Memory(); !limit.IsZero() {
		r.MemoryLimitInBytes = limit.Value()
	}
	return r
}

// score says how soon a container is killed when memory is short: the less it asked for, the sooner.
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
