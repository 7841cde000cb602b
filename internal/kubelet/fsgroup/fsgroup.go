// Package fsgroup gives what is in a volume to the fsGroup of a pod.
//
// Guarantees: symbolic links are not followed, and no permission is taken away.
package fsgroup

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// Of returns the fsGroup of a pod, or nil.
func Of(pod *corev1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

// Give gives everything in a volume to a group. With the pod's policy OnRootMismatch nothing is done if the root of the volume belongs to the group.
func Give(volume string, group int64, pod *corev1.Pod) error {
	if info, err := os.Stat(volume); err == nil && onRootMismatch(pod) && owned(info, group) {
		return nil
	}
	err := filepath.WalkDir(volume, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return give(path, e, int(group))
	})
	if err != nil {
		return fmt.Errorf("give a volume to group %d: %w", group, err)
	}
	return nil
}

func onRootMismatch(pod *corev1.Pod) bool {
	c := pod.Spec.SecurityContext
	return c != nil && c.FSGroupChangePolicy != nil && *c.FSGroupChangePolicy == corev1.FSGroupChangeOnRootMismatch
}

func owned(info fs.FileInfo, group int64) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int64(s.Gid) == group && info.Mode()&fs.ModeSetgid != 0 && info.Mode().Perm()&0o060 == 0o060
}

// give gives one file or directory to a group. Links are left as they are: what they lead to may be anywhere.
func give(path string, e fs.DirEntry, group int) error {
	if e.Type()&fs.ModeSymlink != 0 {
		return nil
	}
	if err := os.Lchown(path, -1, group); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	mode := info.Mode().Perm() | 0o660
	if e.IsDir() {
		mode |= 0o110 | fs.ModeSetgid
	}
	return os.Chmod(path, mode)
}
