package kubelet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/kubelet/pressure"
	"github.com/millrace/millrace/internal/kubelet/stats"
)

// evictOverfull evicts pods with an emptyDir volume above its size limit.
func (k *Kubelet) evictOverfull() {
	for _, pod := range k.config.Pods() {
		if !k.crew.Evictable(pod) {
			continue
		}
		for i := range pod.Spec.Volumes {
			v := &pod.Spec.Volumes[i]
			if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.IsZero() || v.EmptyDir.Medium != corev1.StorageMediumDefault {
				continue
			}
			fs := stats.Directory(k.furnish.Directory(pod.UID, v.Name))
			if fs != nil && int64(*fs.Used) > v.EmptyDir.SizeLimit.Value() {
				k.evict(pod, fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, v.EmptyDir.SizeLimit.String()), shortestGrace)
				break
			}
		}
	}
}

// boundFiles cuts what pods have written to files that are in no volume.
func (k *Kubelet) boundFiles() {
	for _, pod := range k.config.Pods() {
		if err := k.furnish.Bound(string(pod.UID)); err != nil {
			k.options.Logger.Warn("files of a pod cannot be cut", "pod", informer.KeyOf(pod), "err", err)
		}
	}
}

// evictStored evicts pods that use more ephemeral storage than their limits.
func (k *Kubelet) evictStored(ctx context.Context) {
	bounded := map[string]*corev1.Pod{}
	for _, pod := range k.config.Pods() {
		if _, ok := storageLimit(pod); ok && k.crew.Evictable(pod) {
			bounded[string(pod.UID)] = pod
		}
	}
	if len(bounded) == 0 {
		return // most pods have no limit, and then nothing is measured
	}
	summary, err := k.summary(ctx)
	if err != nil {
		k.options.Logger.Warn("storage of pods cannot be measured", "err", err)
		return
	}
	for i := range summary.Pods {
		p := &summary.Pods[i]
		if pod := bounded[p.Ref.UID]; pod != nil {
			if message := k.storesTooMuch(pod, p); message != "" {
				k.evict(pod, message, shortestGrace)
			}
		}
	}
}

// storageLimit returns the sum of the containers' limits of ephemeral storage.
func storageLimit(pod *corev1.Pod) (sum resource.Quantity, ok bool) {
	for i := range pod.Spec.Containers {
		if limit, has := pod.Spec.Containers[i].Resources.Limits[corev1.ResourceEphemeralStorage]; has {
			sum.Add(limit)
			ok = true
		}
	}
	return sum, ok
}

// storesTooMuch returns which limit a pod exceeds: the limit of one container for its writable layer and log, or the
// sum of the limits for all of that, the pod's volumes, its /etc/hosts and its termination messages.
func (k *Kubelet) storesTooMuch(pod *corev1.Pod, p *stats.Pod) string {
	sum := k.volumesOf(pod) + k.furnish.Written(string(pod.UID))
	for i := range p.Containers {
		used := usedOf(&p.Containers[i], pressure.Disk)
		sum += used
		for j := range pod.Spec.Containers {
			c := &pod.Spec.Containers[j]
			if limit, ok := c.Resources.Limits[corev1.ResourceEphemeralStorage]; ok && c.Name == p.Containers[i].Name && used > limit.Value() {
				return fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit.String())
			}
		}
	}
	if limit, _ := storageLimit(pod); sum > limit.Value() {
		return fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", limit.String())
	}
	return ""
}

// volumesOf returns the disk usage of a pod's emptyDir volumes.
func (k *Kubelet) volumesOf(pod *corev1.Pod) int64 {
	sum := int64(0)
	for i := range pod.Spec.Volumes {
		if e := pod.Spec.Volumes[i].EmptyDir; e == nil || e.Medium != corev1.StorageMediumDefault {
			continue
		}
		if fs := stats.Directory(k.furnish.Directory(pod.UID, pod.Spec.Volumes[i].Name)); fs != nil {
			sum += int64(*fs.Used)
		}
	}
	return sum
}
