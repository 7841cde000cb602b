package furnish

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/fsgroup"
)

// LocalDirectory returns the directory of the local volumes that the cluster's provisioner has placed on this node.
func (f *Furnisher) LocalDirectory() string { return LocalDirectory(f.Root) }

// LocalDirectory returns the directory of local volumes for a kubelet with this root.
func LocalDirectory(root string) string { return filepath.Join(root, "local") }

// local makes a local volume ready for a pod, and returns its path. The file system of a device is mounted for each
// pod, in the pod's own directory.
func (f *Furnisher) local(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, pv *corev1.PersistentVolume) (string, error) {
	path, err := f.localVolume(pv.Spec.Local.Path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if isOf(corev1.HostPathBlockDev, info.Mode()) {
		if path, err = f.localDevice(ctx, pod, v, pv); err != nil {
			return "", err
		}
	}
	return path, f.giveOnce(pod, v, path)
}

// localDevice mounts the device of a local volume, unless it is mounted, and returns where.
func (f *Furnisher) localDevice(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, pv *corev1.PersistentVolume) (string, error) {
	directory := f.volumeDirectory(string(pod.UID), v.Name)
	if f.mounts.mounted(directory) {
		return directory, nil
	}
	if err := os.MkdirAll(directory, 0o750); err != nil {
		return "", err
	}
	kind := "ext4"
	if k := pv.Spec.Local.FSType; k != nil && *k != "" {
		kind = *k
	}
	f.making.Lock()
	defer f.making.Unlock()
	return directory, f.mounts.device(ctx, pv.Spec.Local.Path, directory, kind, pv.Spec.MountOptions)
}

// giveOnce gives a volume to the pod's fsGroup, once for each pod. A file beside the directories of the pod's volumes
// says that it was done; no volume can have its name.
func (f *Furnisher) giveOnce(pod *corev1.Pod, v *corev1.Volume, path string) error {
	group := fsgroup.Of(pod)
	given := f.volumeDirectory(string(pod.UID), v.Name) + ".given"
	if _, err := os.Stat(given); err == nil || group == nil || readOnly(v) {
		return nil
	}
	root, err := filepath.EvalSymlinks(path) // the administrator's
	if err != nil {
		return err
	}
	if err := fsgroup.Give(root, *group, pod); err != nil {
		return err
	}
	return os.WriteFile(given, nil, 0o600)
}

// localVolume makes sure that a local volume exists. A volume below this kubelet's own directory is made when a pod
// uses it first; any other must exist.
func (f *Furnisher) localVolume(path string) (string, error) {
	if filepath.Dir(filepath.Clean(path)) != f.LocalDirectory() {
		_, err := os.Stat(path)
		return path, err
	}
	err := os.Mkdir(path, 0o777)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(f.LocalDirectory(), 0o711); err == nil {
			err = os.Mkdir(path, 0o777)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return path, nil
	}
	if err != nil {
		return "", err
	}
	return path, os.Chmod(path, 0o777) // whatever the umask is
}

// RemoveLocal removes a volume below the kubelet's own directory by its name. A volume that does not exist is no error.
func (f *Furnisher) RemoveLocal(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, `/\`) {
		return fmt.Errorf("%q is not the name of a volume", name)
	}
	return os.RemoveAll(filepath.Join(f.LocalDirectory(), name))
}
