package furnish

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/kubelet/fsgroup"
)

// volume makes one volume ready.
func (f *Furnisher) volume(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) error {
	directory := f.volumeDirectory(string(pod.UID), v.Name)
	switch {
	case v.EmptyDir != nil:
		return f.emptyDir(pod, v)
	case v.HostPath != nil:
		return hostPath(v.HostPath)
	case v.Image != nil:
		return nil // pulled and mounted with each container
	case v.ConfigMap != nil, v.Secret != nil, v.DownwardAPI != nil, v.Projected != nil:
		files, err := f.files(ctx, pod, v)
		if err == nil && v.ConfigMap == nil {
			err = f.inMemory(directory)
		}
		if err != nil {
			return err
		}
		return replace(directory, files, fsgroup.Of(pod))
	case v.PersistentVolumeClaim != nil, v.Ephemeral != nil:
		_, _, err := f.claimed(ctx, pod, v)
		return err
	case v.CSI != nil && f.Drivers != nil:
		_, err := f.Drivers.Inline(ctx, pod, v)
		return err
	}
	return ErrUnsupported
}

// inMemory makes the directory of a volume a tmpfs, so that secrets and tokens are on no disk. Where that fails, the
// pod does not start. A volume that an earlier version has put on the disk stays there while its pod has it: containers
// that run would not see another one.
func (f *Furnisher) inMemory(directory string) error {
	if f.SecretsOnDisk || f.mounts.mounted(directory) {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(directory, dataLink)); err == nil {
		return nil
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	if err := f.mounts.secret(directory); err != nil {
		return errors.Join(fmt.Errorf("make a tmpfs for secrets: %w", err), os.Remove(directory))
	}
	return nil
}

// source returns a volume's path on the node, and whether nothing may be written to it.
func (f *Furnisher) source(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (path string, only bool, err error) {
	switch {
	case v.HostPath != nil:
		return v.HostPath.Path, false, nil
	case v.PersistentVolumeClaim != nil, v.Ephemeral != nil:
		path, only, err = f.claimed(ctx, pod, v)
		return path, only || readOnly(v), err
	case v.CSI != nil && f.Drivers != nil:
		path, err = f.Drivers.Inline(ctx, pod, v)
		return path, readOnly(v), err
	}
	return f.volumeDirectory(string(pod.UID), v.Name), readOnly(v), nil
}

// claimed returns the path of a claim's volume on this node, and whether the volume is read-only.
func (f *Furnisher) claimed(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (path string, only bool, err error) {
	name := pod.Name + "-" + v.Name
	if v.PersistentVolumeClaim != nil {
		name = v.PersistentVolumeClaim.ClaimName
	}
	claim, pv, err := f.objects.claim(ctx, pod.Namespace, name)
	if err != nil {
		return "", false, err
	}
	if v.Ephemeral != nil && !metav1.IsControlledBy(claim, pod) {
		return "", false, fmt.Errorf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", claim.Namespace, claim.Name, pod.Namespace, pod.Name)
	}
	if err := fitsMode(pod, v.Name, isBlock(pv)); err != nil {
		return "", false, err
	}
	switch {
	case pv.Spec.HostPath != nil:
		return pv.Spec.HostPath.Path, false, hostPath(pv.Spec.HostPath)
	case pv.Spec.Local != nil && isBlock(pv):
		return pv.Spec.Local.Path, false, nil
	case pv.Spec.Local != nil:
		path, err = f.local(ctx, pod, v, pv)
		return path, false, err
	case pv.Spec.CSI != nil && f.Drivers != nil:
		path, err = f.Drivers.Persistent(ctx, pod, claim, pv, v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly)
		return path, pv.Spec.CSI.ReadOnly, err
	}
	return "", false, ErrUnsupported
}

// hostPath checks a hostPath volume, and makes the path if its type says so.
func hostPath(v *corev1.HostPathVolumeSource) error {
	kind := corev1.HostPathUnset
	if v.Type != nil {
		kind = *v.Type
	}
	switch kind {
	case corev1.HostPathUnset:
		return nil
	case corev1.HostPathDirectoryOrCreate:
		if err := os.MkdirAll(v.Path, 0o755); err != nil {
			return err
		}
	case corev1.HostPathFileOrCreate:
		file, err := os.OpenFile(v.Path, os.O_CREATE|os.O_RDONLY, 0o644)
		if err != nil {
			return err
		}
		file.Close()
	}
	info, err := os.Stat(v.Path)
	if err != nil {
		return fmt.Errorf("hostPath type check failed: %w", err)
	}
	if !isOf(kind, info.Mode()) {
		return fmt.Errorf("hostPath type check failed: %s is not a %s", v.Path, kind)
	}
	return nil
}

func isOf(kind corev1.HostPathType, mode fs.FileMode) bool {
	switch kind {
	case corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate:
		return mode.IsDir()
	case corev1.HostPathFile, corev1.HostPathFileOrCreate:
		return mode.IsRegular()
	case corev1.HostPathSocket:
		return mode&fs.ModeSocket != 0
	case corev1.HostPathCharDev:
		return mode&fs.ModeCharDevice != 0
	case corev1.HostPathBlockDev:
		return mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0
	}
	return false
}
