package csi

import (
	"context"
	"fmt"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// expand has the driver make the file system as large as its volume has become, and says in the claim what came of it. The resizer of the driver marks
// the claim when that is to be done.
func (m *mount) expand(ctx context.Context, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) error {
	large, has := pv.Spec.Capacity[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	if m.readOnly || large.Cmp(has) <= 0 || !pendingOnNode(claim) || !m.driver.can[csipb.NodeServiceCapability_RPC_EXPAND_VOLUME] {
		return nil
	}
	claim, err := m.mark(ctx, claim, func(s *corev1.PersistentVolumeClaimStatus) {
		s.AllocatedResourceStatuses[corev1.ResourceStorage] = corev1.PersistentVolumeClaimNodeResizeInProgress
	})
	if err != nil {
		return err
	}
	if err := m.callExpand(ctx, pv, large); err != nil {
		return m.notExpanded(ctx, claim, large, err)
	}
	m.Record.Eventf(m.pod, corev1.EventTypeNormal, "FileSystemResizeSuccessful", "MountVolume.NodeExpandVolume succeeded for volume %q %s", pv.Name, m.Node)
	m.Record.Eventf(claim, corev1.EventTypeNormal, "FileSystemResizeSuccessful", "MountVolume.NodeExpandVolume succeeded for volume %q %s", pv.Name, m.Node)
	_, err = m.mark(ctx, claim, func(s *corev1.PersistentVolumeClaimStatus) {
		if s.Capacity == nil {
			s.Capacity = corev1.ResourceList{}
		}
		s.Capacity[corev1.ResourceStorage] = large
		if delete(s.AllocatedResourceStatuses, corev1.ResourceStorage); len(s.AllocatedResourceStatuses) == 0 {
			s.AllocatedResourceStatuses = nil
		}
		s.Conditions = slices.DeleteFunc(s.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool { return ofResize[c.Type] })
	})
	return err
}

// ofResize are the conditions of a claim that is being expanded.
var ofResize = map[corev1.PersistentVolumeClaimConditionType]bool{
	corev1.PersistentVolumeClaimFileSystemResizePending: true, corev1.PersistentVolumeClaimResizing: true,
	corev1.PersistentVolumeClaimControllerResizeError: true, corev1.PersistentVolumeClaimNodeResizeError: true,
}

func pendingOnNode(claim *corev1.PersistentVolumeClaim) bool {
	switch claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] {
	case corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress:
		return true
	}
	return false
}

func (m *mount) callExpand(ctx context.Context, pv *corev1.PersistentVolume, size resource.Quantity) error {
	request := &csipb.NodeExpandVolumeRequest{
		VolumeId: m.record.Handle, VolumePath: m.target(m.directory, &m.record), VolumeCapability: m.capability(), CapacityRange: &csipb.CapacityRange{RequiredBytes: size.Value()},
	}
	if m.driver.can[csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] {
		request.StagingTargetPath, _ = m.staging(&m.record)
	}
	var err error
	if request.Secrets, err = m.secrets(ctx, pv.Spec.CSI.NodeExpandSecretRef); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	_, err = m.driver.node.NodeExpandVolume(ctx, request)
	return err
}

// notExpanded says in the claim why its volume was not expanded. What will never work is marked as infeasible, so that a smaller size can be asked for; so
// is what has failed before, if another size has been asked for meanwhile.
func (m *mount) notExpanded(ctx context.Context, claim *corev1.PersistentVolumeClaim, size resource.Quantity, failed error) error {
	failed = fmt.Errorf("expand volume %s: %w", m.record.Name, failed)
	m.Record.Eventf(m.pod, corev1.EventTypeWarning, "VolumeResizeFailed", "NodeExpandVolume failed for volume %q: %v", m.record.Name, failed)
	infeasible := false
	switch status.Code(failed) {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted, codes.OK:
		return failed // the driver may still be at it
	case codes.InvalidArgument, codes.OutOfRange, codes.NotFound:
		infeasible = true
	default:
		asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		infeasible = asked.Cmp(size) != 0 && slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
			return c.Type == corev1.PersistentVolumeClaimNodeResizeError
		})
	}
	_, err := m.mark(ctx, claim, func(s *corev1.PersistentVolumeClaimStatus) {
		if infeasible {
			s.AllocatedResourceStatuses[corev1.ResourceStorage] = corev1.PersistentVolumeClaimNodeResizeInfeasible
		}
		s.Conditions = slices.DeleteFunc(s.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
			return c.Type == corev1.PersistentVolumeClaimNodeResizeError
		})
		s.Conditions = append(s.Conditions, corev1.PersistentVolumeClaimCondition{
			Type: corev1.PersistentVolumeClaimNodeResizeError, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
			Message: fmt.Sprintf("failed to expand pvc with %v", failed),
		})
	})
	switch {
	case err != nil:
		return err
	case status.Code(failed) == codes.FailedPrecondition: // not while it is in use
		return nil
	}
	return failed
}

// mark changes the status of a claim, and returns the claim as it is then.
func (m *mount) mark(ctx context.Context, claim *corev1.PersistentVolumeClaim, change func(*corev1.PersistentVolumeClaimStatus)) (*corev1.PersistentVolumeClaim, error) {
	changed := claim.DeepCopy()
	change(&changed.Status)
	if equality.Semantic.DeepEqual(claim, changed) {
		return claim, nil
	}
	written, err := m.Kube.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("say in claim %s/%s how far its expansion is: %w", claim.Namespace, claim.Name, err)
	}
	return written, nil
}
