package localvolume

import (
	"context"
	"errors"
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/loop"
)

const (
	storageProvisioner = "volume.kubernetes.io/storage-provisioner"
	selectedNode       = "volume.kubernetes.io/selected-node"
)

// errNoDirectory means that a node has no local volumes.
var errNoDirectory = errors.New("the node keeps no local volumes")

// syncClaim makes the volume of a claim.
func (r *controller) syncClaim(ctx context.Context, key loop.Key) (loop.Result, error) {
	claim, ok := r.claims.Lookup(key)
	if !ok || claim.DeletionTimestamp != nil || claim.Spec.VolumeName != "" || claim.Annotations[storageProvisioner] != Provisioner {
		return loop.Result{}, nil
	}
	class, ok := r.classes.Get("", classOf(claim))
	if !ok || class.Provisioner != Provisioner || r.volumes.Has(loop.Key{Name: volumeName(claim)}) {
		return loop.Result{}, nil
	}
	node, err := r.place(claim, class)
	if err == nil {
		err = possible(claim)
	}
	if node == nil && err == nil {
		return loop.Result{}, nil
	}
	if err != nil {
		r.recorder.Eventf(claim, corev1.EventTypeWarning, "ProvisioningFailed", "failed to provision volume with StorageClass %q: %v", class.Name, err)
		if errors.Is(err, errNoDirectory) && claim.Annotations[selectedNode] != "" {
			return loop.Result{}, r.reschedule(ctx, claim)
		}
		return loop.Result{}, err
	}
	r.recorder.Eventf(claim, corev1.EventTypeNormal, "Provisioning", "External provisioner is provisioning volume for claim %q", key.String())
	volume, err := r.volumeWriter.Create(ctx, volumeFor(claim, class, node))
	if apierrors.IsAlreadyExists(err) {
		return loop.Result{}, nil
	}
	if err != nil {
		return loop.Result{}, fmt.Errorf("create a volume for claim %s: %w", key, err)
	}
	r.recorder.Eventf(claim, corev1.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume %s", volume.Name)
	return loop.Result{}, nil
}

// place returns the node of a new volume, or nil until the scheduler has selected one.
func (r *controller) place(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) (*corev1.Node, error) {
	if selected := claim.Annotations[selectedNode]; selected != "" {
		node, ok := r.nodes.Get("", selected)
		if !ok || node.Annotations[DirectoryAnnotation] == "" {
			return nil, fmt.Errorf("node %q: %w", selected, errNoDirectory)
		}
		return node, nil
	}
	if m := class.VolumeBindingMode; m != nil && *m == storagev1.VolumeBindingWaitForFirstConsumer {
		return nil, nil
	}
	var best *corev1.Node
	least := 0
	for node := range r.nodes.List() {
		if node.Annotations[DirectoryAnnotation] == "" || node.Spec.Unschedulable || !ready(node) {
			continue
		}
		count := 0
		for range r.volumes.Keys(onNode, node.Name) {
			count++
		}
		if best == nil || count < least {
			best, least = node, count
		}
	}
	if best == nil {
		return nil, errors.New("no ready node keeps local volumes")
	}
	return best, nil
}

func ready(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// possible returns why a directory cannot be what a claim asks for.
func possible(claim *corev1.PersistentVolumeClaim) error {
	switch s := &claim.Spec; {
	case s.VolumeMode != nil && *s.VolumeMode == corev1.PersistentVolumeBlock:
		return loop.Terminal(errors.New("local volumes are directories: volumeMode Block is not possible"))
	case s.DataSource != nil || s.DataSourceRef != nil:
		return loop.Terminal(errors.New("local volumes begin empty: a data source is not possible"))
	case s.Selector != nil:
		return loop.Terminal(errors.New("claim.Spec.Selector is not supported for dynamic provisioning"))
	}
	return nil
}

// reschedule makes the scheduler select another node.
func (r *controller) reschedule(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	changed := claim.DeepCopy()
	delete(changed.Annotations, selectedNode)
	if _, err := r.claimWriter.Update(ctx, changed); err != nil {
		return fmt.Errorf("ask for another node for claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

func classOf(claim *corev1.PersistentVolumeClaim) string {
	if class, old := claim.Annotations[corev1.BetaStorageClassAnnotation]; old {
		return class
	}
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

func volumeName(claim *corev1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

func volumeFor(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node *corev1.Node) *corev1.PersistentVolume {
	name := volumeName(claim)
	host := node.Labels[corev1.LabelHostname]
	if host == "" {
		host = node.Name
	}
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Finalizers: []string{finalizer},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": Provisioner, nodeAnnotation: node.Name},
		},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:            claim.Spec.AccessModes,
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			StorageClassName:       class.Name,
			VolumeMode:             new(corev1.PersistentVolumeFilesystem),
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path.Join(node.Annotations[DirectoryAnnotation], name)}},
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}},
			}}}},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		},
	}
	if p := class.ReclaimPolicy; p != nil {
		v.Spec.PersistentVolumeReclaimPolicy = *p
	}
	return v
}
