package rules

import (
	"context"
	"errors"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/storage"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Reserve assumes the plan for the node.
func (bi *binding) Reserve(node *cluster.Node) error {
	p, reasons := bi.plan(node)
	if len(bi.delayed) > 0 && len(reasons) > 0 {
		return errors.New(reasons[0])
	}
	bi.node, bi.volumes, bi.claims = node.Name, nil, nil
	for _, m := range p.volumes {
		v, changed, err := volume.GetBindVolumeToClaim(m.volume, m.claim)
		if err != nil {
			bi.Unreserve()
			return err
		}
		if changed {
			bi.state.Storage.AssumeVolume(v)
		}
		bi.volumes = append(bi.volumes, v)
	}
	for _, p := range p.provisions {
		claim := p.claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnSelectedNode, node.Name)
		bi.state.Storage.AssumeClaim(claim)
		bi.claims = append(bi.claims, claim)
	}
	return nil
}

// Unreserve undoes the assumptions.
func (bi *binding) Unreserve() {
	for _, v := range bi.volumes {
		bi.state.Storage.RestoreVolume(v.Name)
	}
	for _, claim := range bi.claims {
		bi.state.Storage.RestoreClaim(keyOf(claim))
	}
}

func keyOf(claim *corev1.PersistentVolumeClaim) storage.Key {
	return storage.Key{Namespace: claim.Namespace, Name: claim.Name}
}

// Prepares reports whether volumes or claims must be bound.
func (bi *binding) Prepares() bool { return len(bi.volumes) > 0 || len(bi.claims) > 0 }

// Prepare writes the decision and waits until volumes and claims are bound.
func (bi *binding) Prepare(ctx context.Context, access plugin.Access) error {
	for i, v := range bi.volumes {
		now, err := access.UpdateVolume(ctx, v)
		if err != nil {
			return err
		}
		bi.volumes[i] = now
	}
	for i, claim := range bi.claims {
		now, err := access.UpdateClaim(ctx, claim)
		if err != nil {
			return err
		}
		bi.claims[i] = now
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bi.timeout, context.DeadlineExceeded)
	defer cancel()
	for {
		changed := access.Changed()
		var done bool
		var err error
		access.WithState(func(*cluster.State) { done, err = bi.isBound() })
		if err != nil {
			return fmt.Errorf("binding volumes: %w", err)
		}
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("binding volumes: %w", context.Cause(ctx))
		}
	}
}

// isBound reports whether all volumes are bound; an error means that they never will be.
func (bi *binding) isBound() (bool, error) {
	node, ok := bi.state.NodeNamed(bi.node)
	if !ok || !node.Present {
		return false, fmt.Errorf("failed to get node %q: node %q not found", bi.node, bi.node)
	}
	if pod, _, _, placed := bi.state.Placed(bi.pod.Key); !placed || pod.UID != bi.pod.UID {
		return false, fmt.Errorf("pod does not exist any more: pod %q not found", bi.pod.Key.Name)
	}
	for _, wanted := range bi.volumes {
		done, err := bi.volumeIsBound(wanted, node)
		if !done || err != nil {
			return false, err
		}
	}
	for _, wanted := range bi.claims {
		done, err := bi.claimIsBound(wanted, node)
		if !done || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (bi *binding) volumeIsBound(wanted *corev1.PersistentVolume, node *cluster.Node) (bool, error) {
	v, ok := bi.state.Storage.ShownVolume(wanted.Name)
	if !ok {
		return false, fmt.Errorf("failed to check binding: could not find v1.PersistentVolume %q", wanted.Name)
	}
	claim, ok := bi.state.Storage.ShownClaim(storage.Key{Namespace: wanted.Spec.ClaimRef.Namespace, Name: wanted.Spec.ClaimRef.Name})
	switch {
	case !ok:
		return false, fmt.Errorf("failed to check binding: could not find v1.PersistentVolumeClaim %q", wanted.Spec.ClaimRef.Namespace+"/"+wanted.Spec.ClaimRef.Name)
	case storage.Newer(wanted.ResourceVersion, v.ResourceVersion):
		return false, nil
	case v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == "":
		return false, fmt.Errorf("ClaimRef got reset for pv %q", v.Name)
	}
	return fullyBound(claim), suits(v, node)
}

func (bi *binding) claimIsBound(wanted *corev1.PersistentVolumeClaim, node *cluster.Node) (bool, error) {
	claim, ok := bi.state.Storage.ShownClaim(keyOf(wanted))
	switch {
	case !ok:
		return false, fmt.Errorf("failed to check provisioning pvc: could not find v1.PersistentVolumeClaim %q", wanted.Namespace+"/"+wanted.Name)
	case storage.Newer(wanted.ResourceVersion, claim.ResourceVersion):
		return false, nil
	case claim.Annotations == nil:
		return false, fmt.Errorf("selectedNode annotation reset for PVC %q", claim.Name)
	case claim.Annotations[volume.AnnSelectedNode] != bi.node:
		return false, fmt.Errorf("provisioning failed for PVC %q", claim.Name)
	}
	if claim.Spec.VolumeName == "" {
		return false, nil
	}
	v, ok := bi.state.Storage.ShownVolume(claim.Spec.VolumeName)
	if !ok {
		return false, nil
	}
	return fullyBound(claim), suits(v, node)
}

func suits(v *corev1.PersistentVolume, node *cluster.Node) error {
	if err := volume.CheckNodeAffinity(v, node.Labels); err != nil {
		return fmt.Errorf("pv %q node affinity doesn't match node %q: %w", v.Name, node.Name, err)
	}
	return nil
}

// Scores reports whether volumes are chosen or provisioned, so that nodes can differ.
func (bi *binding) Scores() bool {
	for _, claim := range bi.delayed {
		class := volume.GetPersistentVolumeClaimClass(claim)
		if bi.state.Storage.HasVolumes(class) {
			return true
		}
		for range bi.state.Storage.Capacities(class) {
			return true
		}
	}
	return false
}

// Score rates the utilization of the volumes, or of the capacity where they are provisioned.
func (bi *binding) Score(node *cluster.Node) int64 {
	p, reasons := bi.plan(node)
	if len(reasons) > 0 {
		return 0
	}
	type use struct{ requested, capacity int64 }
	classes := make(map[string]use)
	for _, m := range p.volumes {
		u := classes[m.volume.Spec.StorageClassName]
		requested, capacity := m.claim.Spec.Resources.Requests[corev1.ResourceStorage], m.volume.Spec.Capacity[corev1.ResourceStorage]
		classes[m.volume.Spec.StorageClassName] = use{u.requested + requested.Value(), u.capacity + capacity.Value()}
	}
	if len(p.volumes) == 0 {
		for _, p := range p.provisions {
			if p.room == nil || p.room.Capacity == nil {
				continue
			}
			class := volume.GetPersistentVolumeClaimClass(p.claim)
			requested := p.claim.Spec.Resources.Requests[corev1.ResourceStorage]
			classes[class] = use{classes[class].requested + requested.Value(), p.room.Capacity.Value()}
		}
	}
	if len(classes) == 0 {
		return 0
	}
	var sum int64
	for _, u := range classes {
		used := int64(100)
		if u.capacity > 0 && u.requested <= u.capacity {
			used = u.requested * 100 / u.capacity
		}
		sum += bi.shape.at(used)
	}
	return int64(math.Round(float64(sum) / float64(len(classes))))
}
