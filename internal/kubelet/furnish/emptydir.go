package furnish

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/fsgroup"
)

// emptyDir makes a directory that everybody may write to, or that the pod's fsGroup owns.
//
// A mark outside of the volume says that it is complete: if a kubelet was killed half-way, the next one makes the
// volume again. The mark of a volume in memory only counts while the volume is mounted, which it is not after a reboot.
func (f *Furnisher) emptyDir(pod *corev1.Pod, v *corev1.Volume) error {
	directory, mark := f.volumeDirectory(string(pod.UID), v.Name), f.completeMark(string(pod.UID), v.Name)
	inMemory := v.EmptyDir.Medium == corev1.StorageMediumMemory
	if _, err := os.Stat(mark); err == nil {
		if _, err := os.Stat(directory); err == nil && (!inMemory || f.mounts.mounted(directory)) {
			return nil
		}
	}
	if err := os.MkdirAll(directory, 0o777); err != nil {
		return err
	}
	if inMemory && !f.mounts.mounted(directory) {
		if err := f.mounts.memory(directory, sizeLimit(v.EmptyDir)); err != nil {
			return errors.Join(err, os.Remove(directory))
		}
	}
	mode := fs.FileMode(0o777)
	if inMemory {
		mode |= fs.ModeSticky // as a tmpfs has it, and the directories of subPaths that are made in it
	}
	if err := open(directory, mode, fsgroup.Of(pod)); err != nil {
		return err
	}
	return complete(mark)
}

func sizeLimit(v *corev1.EmptyDirVolumeSource) int64 {
	if v.SizeLimit == nil {
		return 0
	}
	return v.SizeLimit.Value()
}

// open sets the mode of a directory, and its group if there is one.
func open(directory string, mode fs.FileMode, group *int64) error {
	if group != nil {
		if err := os.Chown(directory, -1, int(*group)); err != nil {
			return err
		}
		mode |= fs.ModeSetgid
	}
	return os.Chmod(directory, mode)
}

// completeMark returns the file that marks a volume as complete.
func (f *Furnisher) completeMark(uid, volume string) string {
	return filepath.Join(f.podDirectory(uid), "complete", volume)
}

func complete(mark string) error {
	if err := os.MkdirAll(filepath.Dir(mark), 0o755); err != nil {
		return err
	}
	return os.WriteFile(mark, nil, 0o644)
}
