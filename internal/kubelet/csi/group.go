package csi

import (
	"fmt"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/millrace/millrace/internal/kubelet/fsgroup"
)

// giveToGroup gives what is in a volume to the pod's group, if the driver's policy says so and the driver has not done
// it.
func (m *mount) giveToGroup() error {
	group := fsgroup.Of(m.pod)
	if group == nil || m.readOnly || m.record.Block || m.driver.can[csipb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP] || !m.groupApplies() {
		return nil
	}
	target := m.target(m.directory, &m.record)
	if err := fsgroup.Give(target, *group, m.pod); err != nil {
		return fmt.Errorf("volume %s: %w", m.record.Name, err)
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
