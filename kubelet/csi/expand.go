package csi

import (
	"context"
	"fmt"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// expand has the driver make the file system as large as its volume has become, and says so in the claim.
func (m *mount) expand(ctx context.Context, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) error {
	large, has := pv.Spec.Capacity[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	if m.readOnly || large.Cmp(has) <= 0 || !m.driver.can[csipb.NodeServiceCapability_RPC_EXPAND_VOLUME] {
		return nil
	}
	request := &csipb.NodeExpandVolumeRequest{
		VolumeId: m.record.Handle, VolumePath: m.target(m.directory, &m.record), VolumeCapability: m.capability(), CapacityRange: &csipb.CapacityRange{RequiredBytes: large.Value()},
	}
	if m.driver.can[csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] {
		request.StagingTargetPath, _ = m.staging(&m.record)
	}
	secrets, err := m.secrets(ctx, pv.Spec.CSI.NodeExpandSecretRef)
	if err != nil {
		return err
	}
	request.Secrets = secrets
	if _, err := m.driver.node.NodeExpandVolume(ctx, request); err != nil {
		return fmt.Errorf("expand volume %s: %w", m.record.Name, err)
	}
	changed := claim.DeepCopy()
	s := &changed.Status
	if s.Capacity == nil {
		s.Capacity = corev1.ResourceList{}
	}
	s.Capacity[corev1.ResourceStorage] = large
	delete(s.AllocatedResourceStatuses, corev1.ResourceStorage)
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimFileSystemResizePending || c.Type == corev1.PersistentVolumeClaimResizing
	})
	if _, err := m.Kube.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("say that claim %s/%s has grown: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}
