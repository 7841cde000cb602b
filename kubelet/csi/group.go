package csi

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// giveToGroup gives what is in a volume to the pod's group, if the driver's policy says so and the driver has not done it.
func (m *mount) giveToGroup() error {
	group := m.group()
	if group == nil || m.readOnly || m.record.Block || m.driver.can[csipb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP] || !m.groupApplies() {
		return nil
	}
	target := m.target(m.directory, &m.record)
	if info, err := os.Stat(target); err == nil && onRootMismatch(m.pod) && owned(info, *group) {
		return nil
	}
	err := filepath.WalkDir(target, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return give(path, e, int(*group))
	})
	if err != nil {
		return fmt.Errorf("give volume %s to group %d: %w", m.record.Name, *group, err)
	}
	return nil
}

// groupApplies is the driver's policy.
func (m *mount) groupApplies() bool {
	policy := storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	if m.options != nil && m.options.Spec.FSGroupPolicy != nil {
		policy = *m.options.Spec.FSGroupPolicy
	}
	switch policy {
	case storagev1.FileFSGroupPolicy:
		return true
	case storagev1.NoneFSGroupPolicy:
		return false
	}
	if m.fsType == "" {
		return false
	}
	return m.inline() || slices.Contains(m.modes, corev1.ReadWriteOnce) || slices.Contains(m.modes, corev1.ReadWriteOncePod)
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
