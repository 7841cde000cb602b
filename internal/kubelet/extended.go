package kubelet

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	told "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/kubelet/deviceplugin"
	"github.com/millrace/millrace/internal/kubelet/node"
	"github.com/millrace/millrace/internal/kubelet/plugins"
	"github.com/millrace/millrace/internal/kubelet/podresources"
	"github.com/millrace/millrace/internal/kubelet/source"
	"github.com/millrace/millrace/internal/kubelet/worker"
)

// serveDevices sets up what device plugins need, and those who ask for pods' devices.
func (k *Kubelet) serveDevices() (err error) {
	o := &k.options
	if !o.ServeDevices {
		return nil
	}
	k.plugins, err = deviceplugin.New(deviceplugin.Options{
		Directory: k.devicePlugins(), Changed: k.health.tell, Affected: k.syncPods, Logger: o.Logger,
	})
	if err != nil {
		return err
	}
	k.runners = append(k.runners, k.plugins, podresources.New(podresources.Options{
		Directory: filepath.Join(o.Root, "pod-resources"), Pods: k.activePods, Devices: podDevices{k}, Logger: o.Logger,
	}))
	return nil
}

// devicePlugins returns the directory where device plugins register. Another kubelet of this machine may have the usual
// one.
func (k *Kubelet) devicePlugins() string {
	o := &k.options
	if usual := o.DevicePlugins; !plugins.Answers(filepath.Join(usual, deviceplugin.SocketName)) {
		return usual
	}
	own := filepath.Join(o.Root, "device-plugins")
	o.Logger.Warn("device plugins register with another kubelet of this machine", "directory", o.DevicePlugins, "here", own)
	return own
}

// activePods returns the pods that were admitted and have not ended.
func (k *Kubelet) activePods() []*corev1.Pod {
	return slices.DeleteFunc(k.config.Pods(), func(p *corev1.Pod) bool { return !k.crew.Admitted(p) })
}

// syncPods syncs the pods with some UIDs.
func (k *Kubelet) syncPods(uids []types.UID) {
	for _, p := range k.config.Pods() {
		if slices.Contains(uids, p.UID) {
			k.crew.Changed(informer.KeyOf(p))
		}
	}
}

// deviceHealth returns the health of a container's devices.
func (k *Kubelet) deviceHealth(pod *corev1.Pod, c *corev1.Container) []corev1.ResourceStatus {
	var all []corev1.ResourceStatus
	if k.plugins != nil {
		all = k.plugins.Health(pod.UID, c.Name)
	}
	if k.devices != nil {
		all = append(all, k.devices.Health(pod, c)...)
	}
	return all
}

// giveDevices gives the containers of a pod their devices.
func (k *Kubelet) giveDevices(ctx context.Context, pod *corev1.Pod) *worker.Rejection {
	if k.plugins == nil {
		return nil
	}
	if err := k.plugins.Admit(ctx, pod); err != nil {
		return &worker.Rejection{Reason: "UnexpectedAdmissionError", Message: fmt.Sprintf("Allocate failed due to %v, which is unexpected", err)}
	}
	return nil
}

// takeDevices takes the devices of a pod back.
func (k *Kubelet) takeDevices(pod *corev1.Pod) {
	if k.plugins == nil {
		return
	}
	if err := k.plugins.Release(pod.UID); err != nil {
		k.options.Logger.Warn("devices of a pod that was rejected cannot be taken back", "pod", source.Key{Namespace: pod.Namespace, Name: pod.Name}, "err", err)
	}
}

// addDevices adds the devices of plugins to the node's facts. Those that are not healthy count as reserved.
func (k *Kubelet) addDevices(f *node.Facts) {
	if k.plugins == nil {
		return
	}
	all, unhealthy := k.plugins.Amounts()
	reserved := f.Reserved.DeepCopy()
	if reserved == nil {
		reserved = corev1.ResourceList{}
	}
	for name, amount := range all {
		f.Capacity[name] = amount
		if q := unhealthy[name]; !q.IsZero() {
			reserved[name] = q
		}
	}
	f.Reserved = reserved
}

// podDevices implements podresources.Devices for a Kubelet.
type podDevices struct{ *Kubelet }

// PluginDevices returns all healthy devices of device plugins.
func (d podDevices) PluginDevices() map[corev1.ResourceName][]*api.Device {
	if d.plugins == nil {
		return nil
	}
	return d.plugins.Devices()
}

// PluginDevicesOf returns the devices that a container has from device plugins.
func (d podDevices) PluginDevicesOf(pod *corev1.Pod, c *corev1.Container) map[corev1.ResourceName][]*api.Device {
	if d.plugins == nil {
		return nil
	}
	return d.plugins.Of(pod.UID, c.Name)
}

// ClaimedDevicesOf returns the devices that a container has by resource claims.
func (d podDevices) ClaimedDevicesOf(pod *corev1.Pod, c *corev1.Container) []*told.DynamicResource {
	if d.devices == nil {
		return nil
	}
	return d.devices.Resources(pod, c)
}
