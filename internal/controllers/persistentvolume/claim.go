package persistentvolume

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// syncClaim binds a claim, requests a volume for it, or records what it waits for.
func (r *controller) syncClaim(ctx context.Context, key loop.Key) (loop.Result, error) {
	claim, ok := r.claims.Lookup(key)
	switch {
	case !ok:
		return loop.Result{}, nil
	case claim.Annotations[bindCompleted] != "":
		return loop.Result{}, r.keepBound(ctx, claim)
	case claim.Spec.VolumeName != "":
		return loop.Result{}, r.bindToNamed(ctx, claim)
	}
	waits := waitsForConsumer(r.class(claim))
	volume, err := r.match(claim, waits)
	if err != nil {
		return loop.Result{}, err
	}
	if volume != nil {
		err := r.bind(ctx, volume, claim)
		if err != nil {
			r.given.takeBack(volume, claim)
		}
		return loop.Result{}, err
	}
	return loop.Result{}, r.provide(ctx, claim, waits)
}

// provide handles a claim for which there is no volume.
func (r *controller) provide(ctx context.Context, claim *corev1.PersistentVolumeClaim, waits bool) error {
	if _, named := classOfClaim(claim); !named {
		if class := r.defaultClass(); class != nil {
			changed := claim.DeepCopy()
			changed.Spec.StorageClassName = &class.Name
			_, err := r.claimWriter.Update(ctx, changed)
			r.Metrics.Classified(err)
			return wrapf(err, "give claim %s/%s its class", claim.Namespace, claim.Name)
		}
	}
	_, placed := claim.Annotations[SelectedNode]
	switch {
	case waits && !placed:
		r.tellWhatIsAwaited(claim)
	case ClassOfClaim(claim) != "" && r.NoProvisioning:
	case ClassOfClaim(claim) != "":
		return r.requestVolume(ctx, claim)
	default:
		r.recorder.Eventf(claim, corev1.EventTypeNormal, "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
	}
	_, err := r.claimStatus(ctx, claim, corev1.ClaimPending, nil)
	return err
}

func (r *controller) tellWhatIsAwaited(claim *corev1.PersistentVolumeClaim) {
	var waiting []string
	for pod := range podview.WithClaim(r.pods, claim.Namespace, claim.Name) {
		if pod.Node == "" && !pod.Finished() {
			waiting = append(waiting, pod.Name)
		}
	}
	slices.Sort(waiting)
	reason, message := "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
	switch {
	case len(waiting) == 1:
		reason, message = "WaitForPodScheduled", fmt.Sprintf("waiting for pod %s to be scheduled", waiting[0])
	case len(waiting) > 1:
		reason, message = "WaitForPodScheduled", fmt.Sprintf("waiting for pods %s to be scheduled", strings.Join(waiting, ","))
	}
	r.recorder.Eventf(claim, corev1.EventTypeNormal, reason, "%s", message)
}

// drivers make the volumes of provisioners that were part of Kubernetes.
var drivers = map[string]string{
	"kubernetes.io/aws-ebs":         "ebs.csi.aws.com",
	"kubernetes.io/azure-disk":      "disk.csi.azure.com",
	"kubernetes.io/azure-file":      "file.csi.azure.com",
	"kubernetes.io/cinder":          "cinder.csi.openstack.org",
	"kubernetes.io/gce-pd":          "pd.csi.storage.gke.io",
	"kubernetes.io/portworx-volume": "pxd.portworx.com",
	"kubernetes.io/vsphere-volume":  "csi.vsphere.vmware.com",
}

// requestVolume sets the provisioner annotation of a claim.
func (r *controller) requestVolume(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	class := r.class(claim)
	if class == nil {
		r.recorder.Eventf(claim, corev1.EventTypeWarning, "ProvisioningFailed", "storageclass.storage.k8s.io %q not found", ClassOfClaim(claim))
		return nil
	}
	provisioner := cmp.Or(drivers[class.Provisioner], class.Provisioner)
	if strings.HasPrefix(provisioner, "kubernetes.io/") {
		r.recorder.Eventf(claim, corev1.EventTypeWarning, "ProvisioningFailed", "no volume plugin matched name: %s", provisioner)
		return nil
	}
	if claim.Annotations[StorageProvisioner] != provisioner || claim.Annotations[storageProvisionerBeta] != provisioner {
		changed := claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, StorageProvisioner, provisioner)
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, storageProvisionerBeta, provisioner)
		written, err := r.claimWriter.Update(ctx, changed)
		if err != nil {
			if !apierrors.IsConflict(err) {
				r.recorder.Eventf(claim, corev1.EventTypeWarning, "ProvisioningFailed", "Error saving claim: %v", err)
			}
			return fmt.Errorf("name the provisioner of claim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
		claim = written
	}
	r.recorder.Eventf(claim, corev1.EventTypeNormal, "ExternalProvisioning", "Waiting for a volume to be created either by the external provisioner '%s' "+
		"or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.", provisioner)
	return nil
}

// bindToNamed binds a claim to the volume in its spec.volumeName.
func (r *controller) bindToNamed(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	volume, found := r.volumes.Get("", claim.Spec.VolumeName)
	switch {
	case !found:
	case volume.Spec.ClaimRef == nil:
		err := satisfies(volume, claim)
		if err == nil {
			return r.bind(ctx, volume, claim)
		}
		r.recorder.Eventf(claim, corev1.EventTypeWarning, "VolumeMismatch", "Cannot bind to requested volume %q: %s", volume.Name, err)
	case names(volume, claim):
		return r.bind(ctx, volume, claim)
	default:
		r.recorder.Eventf(claim, corev1.EventTypeWarning, "FailedBinding", "volume %q already bound to a different claim.", volume.Name)
		if claim.Annotations[boundByController] != "" {
			return loop.Terminal(fmt.Errorf("claim %s/%s names volume %s, which belongs to claim %s/%s", claim.Namespace, claim.Name,
				volume.Name, volume.Spec.ClaimRef.Namespace, volume.Spec.ClaimRef.Name))
		}
	}
	_, err := r.claimStatus(ctx, claim, corev1.ClaimPending, nil)
	return err
}

// keepBound completes the binding of a claim, or marks it as lost.
func (r *controller) keepBound(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if claim.Spec.VolumeName == "" {
		return r.lost(ctx, claim, "ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
	}
	volume, found := r.volumes.Get("", claim.Spec.VolumeName)
	if found && !anothers(volume, claim) {
		return r.bind(ctx, volume, claim)
	}
	if claim.Status.Phase == corev1.ClaimLost {
		return nil
	}
	// A claim is lost for good, and the cache of volumes may be behind that of claims: the API decides.
	volume, err := r.kube.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return r.lost(ctx, claim, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	case err != nil:
		return fmt.Errorf("read volume %s: %w", claim.Spec.VolumeName, err)
	case anothers(volume, claim):
		return r.lost(ctx, claim, "ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
	}
	return loop.ErrBehind
}

// anothers reports whether a volume is that of another claim, perhaps an earlier one of the same name.
func anothers(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	ref := volume.Spec.ClaimRef
	return ref != nil && ref.UID != claim.UID
}

func (r *controller) lost(ctx context.Context, claim *corev1.PersistentVolumeClaim, reason, message string) error {
	if claim.Status.Phase == corev1.ClaimLost {
		return nil
	}
	written, err := r.claimStatus(ctx, claim, corev1.ClaimLost, nil)
	if err == nil {
		r.recorder.Eventf(written, corev1.EventTypeWarning, reason, "%s", message)
	}
	return err
}
