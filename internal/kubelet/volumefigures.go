package kubelet

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/kubelet/csi"
	"github.com/millrace/millrace/internal/kubelet/source"
	"github.com/millrace/millrace/internal/kubelet/stats"
)

// volumeFigures measures the volumes of a pod: its own directories, and those whose drivers tell how full they are.
func (k *Kubelet) volumeFigures(ctx context.Context, of stats.Reference) []stats.Volume {
	pod, ok := k.config.Pod(source.Key{Namespace: of.Namespace, Name: of.Name})
	if !ok || string(pod.UID) != of.UID {
		return nil
	}
	var all []stats.Volume
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.EmptyDir == nil {
			continue
		}
		measure := stats.Directory
		if v.EmptyDir.Medium == corev1.StorageMediumMemory {
			measure = stats.Disk
		}
		if fs := measure(k.furnish.Directory(pod.UID, v.Name)); fs != nil {
			all = append(all, stats.Volume{Name: v.Name, FS: *fs})
		}
	}
	if k.drivers == nil {
		return all
	}
	for _, u := range k.drivers.Usages(ctx, pod.UID) {
		if name := volumeName(pod, &u); name != "" {
			all = append(all, volumeOf(pod, name, &u))
		}
	}
	return all
}

// volumeName finds the volume of a pod that a driver has told of.
func volumeName(pod *corev1.Pod, u *csi.Usage) string {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case u.Claim == "" && v.CSI != nil && v.Name == u.Volume,
			u.Claim != "" && demand.Claim(pod.Name, v) == u.Claim:
			return v.Name
		}
	}
	return ""
}

func volumeOf(pod *corev1.Pod, name string, u *csi.Usage) stats.Volume {
	v := stats.Volume{Name: name, FS: stats.FS{Time: metav1.Time{Time: u.At}}}
	if b := u.Bytes; b != nil {
		v.Capacity, v.Available, v.Used = &b.Total, &b.Available, &b.Used
	}
	if n := u.Inodes; n != nil {
		v.Inodes, v.InodesFree, v.InodesUsed = &n.Total, &n.Available, &n.Used
	}
	if u.Claim != "" {
		v.Claim = &stats.ClaimReference{Name: u.Claim, Namespace: pod.Namespace}
	}
	return v
}

// volumeMetrics are the kubelet's metrics of how full the volumes of claims are.
type volumeMetrics struct{ kubelet *Kubelet }

// volumeMetric is one of them. Its value is nil if it is not known.
type volumeMetric struct {
	description *prometheus.Desc
	value       func(*stats.Volume) *uint64
}

func newVolumeMetric(name, help string, value func(*stats.Volume) *uint64) volumeMetric {
	return volumeMetric{prometheus.NewDesc("kubelet_volume_stats_"+name, help, []string{"namespace", "persistentvolumeclaim"}, nil), value}
}

var ofVolumes = []volumeMetric{
	newVolumeMetric("capacity_bytes", "Capacity in bytes of the volume", func(v *stats.Volume) *uint64 { return v.Capacity }),
	newVolumeMetric("available_bytes", "Number of available bytes in the volume", func(v *stats.Volume) *uint64 { return v.Available }),
	newVolumeMetric("used_bytes", "Number of used bytes in the volume", func(v *stats.Volume) *uint64 { return v.Used }),
	newVolumeMetric("inodes", "Maximum number of inodes in the volume", func(v *stats.Volume) *uint64 { return v.Inodes }),
	newVolumeMetric("inodes_free", "Number of free inodes in the volume", func(v *stats.Volume) *uint64 { return v.InodesFree }),
	newVolumeMetric("inodes_used", "Number of used inodes in the volume", func(v *stats.Volume) *uint64 { return v.InodesUsed }),
}

// scrapeTime bounds how long drivers may take for the metrics of all volumes.
const scrapeTime = 10 * time.Second

// Describe implements [prometheus.Collector].
func (volumeMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, m := range ofVolumes {
		to <- m.description
	}
}

// Collect implements [prometheus.Collector]. A volume that several pods of the node have is measured once.
func (c volumeMetrics) Collect(to chan<- prometheus.Metric) {
	if c.kubelet.drivers == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	seen := make(map[stats.ClaimReference]bool)
	for _, pod := range c.kubelet.config.Pods() {
		for _, u := range c.kubelet.drivers.Usages(ctx, pod.UID) {
			v := volumeOf(pod, "", &u)
			if v.Claim == nil || seen[*v.Claim] {
				continue
			}
			seen[*v.Claim] = true
			for _, m := range ofVolumes {
				if value := m.value(&v); value != nil {
					to <- prometheus.MustNewConstMetric(m.description, prometheus.GaugeValue, float64(*value), v.Claim.Namespace, v.Claim.Name)
				}
			}
		}
	}
}
