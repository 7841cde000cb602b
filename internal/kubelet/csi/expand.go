package csi

import (
	"context"
	"fmt"
	"slices"
	"sync"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// expand has the driver make the file system as large as its volume has become. The resizer of the driver marks the
// claim when that is to be done, and the first node that does it says in the claim that it is done. Other nodes that
// have the volume find that the claim has grown since they expanded it last.
func (m *mount) expand(ctx context.Context, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) error {
	if m.readOnly || !m.driver.can[csipb.NodeServiceCapability_RPC_EXPAND_VOLUME] {
		return nil
	}
	defer m.volumes.lock(m.volume())()
	large, has := pv.Spec.Capacity[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	here := m.sizes.of(m.volume(), has)
	var err error
	switch {
	case large.Cmp(has) > 0 && pendingOnNode(claim):
		err = m.expandFirst(ctx, claim, pv, large)
	case large.Cmp(here) > 0 && large.Cmp(has) <= 0 && claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] == "":
		if err = m.callExpand(ctx, pv, large); err != nil {
			err = fmt.Errorf("expand volume %s: %w", m.record.Name, err)
			m.Record.Eventf(m.pod, corev1.EventTypeWarning, "VolumeResizeFailed", "NodeExpandVolume failed for volume %q: %v", m.record.Name, err)
			return err
		}
		m.expanded(claim, pv)
	default:
		return nil
	}
	if err == nil {
		m.sizes.set(m.volume(), large)
	}
	return err
}

// volume is the name of a volume among those of all drivers.
func (m *mount) volume() string { return m.record.volume() }

// expanded tells that the file system of a volume has grown.
func (m *mount) expanded(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) {
	m.Record.Eventf(m.pod, corev1.EventTypeNormal, "FileSystemResizeSuccessful", "MountVolume.NodeExpandVolume succeeded for volume %q %s", pv.Name, m.Node)
	m.Record.Eventf(claim, corev1.EventTypeNormal, "FileSystemResizeSuccessful", "MountVolume.NodeExpandVolume succeeded for volume %q %s", pv.Name, m.Node)
}

// expandFirst expands a volume, and says in its claim what came of it.
func (m *mount) expandFirst(ctx context.Context, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, large resource.Quantity) error {
	claim, err := m.mark(ctx, claim, func(s *corev1.PersistentVolumeClaimStatus) {
		s.AllocatedResourceStatuses[corev1.ResourceStorage] = corev1.PersistentVolumeClaimNodeResizeInProgress
	})
	if err != nil {
		return err
	}
	if err := m.callExpand(ctx, pv, large); err != nil {
		return m.notExpanded(ctx, claim, large, err)
	}
	m.expanded(claim, pv)
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

// notExpanded says in the claim why its volume was not expanded. What will never work is marked as infeasible, so that
// a smaller size can be asked for; so is what has failed before, if another size has been asked for meanwhile.
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

// sizes are what this node knows of how large its volumes' file systems are, by volume.
type sizes struct {
	mu  sync.Mutex
	all map[string]resource.Quantity // guarded by mu
}

// of returns a size. The first question about a volume sets it: whoever mounts a volume finds it as large as its claim
// has it.
func (s *sizes) of(volume string, first resource.Quantity) resource.Quantity {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q, ok := s.all[volume]; ok {
		return q
	}
	if s.all == nil {
		s.all = map[string]resource.Quantity{}
	}
	s.all[volume] = first
	return first
}

func (s *sizes) set(volume string, q resource.Quantity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[volume] = q
}

func (s *sizes) forget(volume string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, volume)
}
