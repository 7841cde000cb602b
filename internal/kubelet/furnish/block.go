package furnish

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

func isBlock(pv *corev1.PersistentVolume) bool {
	return pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock
}

// fitsMode returns an error if a container uses a file system as a device, or a device as a file system.
func fitsMode(pod *corev1.Pod, volume string, block bool) error {
	all := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	for i := range all {
		mounted := slices.ContainsFunc(all[i].VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
		device := slices.ContainsFunc(all[i].VolumeDevices, func(d corev1.VolumeDevice) bool { return d.Name == volume })
		switch {
		case block && mounted:
			return fmt.Errorf("volume %s has volumeMode Block, but is specified in volumeMounts", volume)
		case !block && device:
			return fmt.Errorf("volume %s has volumeMode Filesystem, but is specified in volumeDevices", volume)
		}
	}
	return nil
}

// block resolves a volume device of a container to a device of the node.
func (f *Furnisher) block(ctx context.Context, pod *corev1.Pod, d *corev1.VolumeDevice) (container.Block, error) {
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == d.Name })
	if i < 0 {
		return container.Block{}, fmt.Errorf("volume %q is not defined", d.Name)
	}
	v := &pod.Spec.Volumes[i]
	path, only, err := f.source(ctx, pod, v)
	if err != nil {
		return container.Block{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return container.Block{}, err
	}
	if info.Mode()&fs.ModeDevice == 0 || info.Mode()&fs.ModeCharDevice != 0 {
		return container.Block{}, fmt.Errorf("volume %q is not a block device: %s", d.Name, path)
	}
	return container.Block{Container: d.DevicePath, Host: path, ReadOnly: only}, nil
}
