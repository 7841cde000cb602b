package attachdetach

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/controllers/podview"
	"github.com/millrace/millrace/loop"
)

const (
	// managed says, in a node, that this loop attaches for it, and not its kubelet.
	managed = "volumes.kubernetes.io/controller-managed-attach-detach"
	// forceAfter is how long a node that is not ready keeps its volumes.
	forceAfter = 6 * time.Minute
)

// attachmentName is what Kubernetes calls an attachment.
func attachmentName(v *corev1.PersistentVolume, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(v.Spec.CSI.VolumeHandle+v.Spec.CSI.Driver+node)))
}

// uniqueName is what a node calls a volume.
func uniqueName(v *corev1.PersistentVolume) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + v.Spec.CSI.Driver + "^" + v.Spec.CSI.VolumeHandle)
}

// attachable tells whether a volume's driver wants it to be attached.
func (r *controller) attachable(v *corev1.PersistentVolume) bool {
	if v.Spec.CSI == nil {
		return false
	}
	d, ok := r.drivers.Get("", v.Spec.CSI.Driver)
	return !ok || d.Spec.AttachRequired == nil || *d.Spec.AttachRequired
}

// users are the nodes whose pods use a volume, with one of these pods each.
func (r *controller) users(v *corev1.PersistentVolume) map[string]*podview.Pod {
	ref := v.Spec.ClaimRef
	if ref == nil {
		return nil
	}
	claim, ok := r.claims.Get(ref.Namespace, ref.Name)
	if !ok || claim.UID != ref.UID || claim.Spec.VolumeName != v.Name {
		return nil
	}
	all := map[string]*podview.Pod{}
	for pod := range podview.WithClaim(r.pods, ref.Namespace, ref.Name) {
		if pod.Node != "" && !pod.Finished() {
			all[pod.Node] = pod
		}
	}
	return all
}

// syncVolume makes and removes the attachments of a volume.
func (r *controller) syncVolume(ctx context.Context, key loop.Key) (loop.Result, error) {
	volume, ok := r.volumes.Lookup(key)
	wanted := map[string]*podview.Pod{}
	if ok && r.attachable(volume) {
		wanted = r.users(volume)
	}
	var soonest time.Duration
	holders := 0
	for a := range r.attachments.By(byVolume, key.Name) {
		holders++
		if wanted[a.Spec.NodeName] != nil {
			delete(wanted, a.Spec.NodeName)
			continue
		}
		wait, err := r.detach(ctx, volume, a)
		if err != nil {
			return loop.Result{}, err
		}
		if wait > 0 && (soonest == 0 || wait < soonest) {
			soonest = wait
		}
	}
	for _, node := range slices.Sorted(maps.Keys(wanted)) {
		if holders > 0 && single(volume) {
			r.recorder.Eventf(reference(wanted[node]), corev1.EventTypeWarning, "FailedAttachVolume", "%s", r.multiAttach(volume, node))
			continue
		}
		if err := r.attach(ctx, volume, node); err != nil {
			return loop.Result{}, err
		}
		holders++
	}
	return loop.Result{After: soonest}, nil
}

// reference is a pod as events are about it.
func reference(p *podview.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}
}

// single tells whether a volume may be on one node only.
func single(v *corev1.PersistentVolume) bool {
	return len(v.Spec.AccessModes) > 0 && !slices.ContainsFunc(v.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
	})
}

// multiAttach says who has a volume that another node wants.
func (r *controller) multiAttach(v *corev1.PersistentVolume, node string) string {
	var pods []string
	for other, pod := range r.users(v) {
		if other != node {
			pods = append(pods, pod.Name)
		}
	}
	slices.Sort(pods)
	if len(pods) == 0 {
		return fmt.Sprintf("Multi-Attach error for volume %q Volume is already exclusively attached to one node and can't be attached to another", v.Name)
	}
	return fmt.Sprintf("Multi-Attach error for volume %q Volume is already used by pod(s) %s", v.Name, strings.Join(pods, ", "))
}

func (r *controller) attach(ctx context.Context, v *corev1.PersistentVolume, name string) error {
	node, ok := r.nodes.Get("", name)
	if !ok || node.Annotations[managed] != "true" {
		return nil
	}
	_, err := r.attachmentWriter.Create(ctx, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: attachmentName(v, name)},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: v.Spec.CSI.Driver, NodeName: name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &v.Name}},
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("attach volume %s to node %s: %w", v.Name, name, err)
	}
	return nil
}

// detach removes an attachment that nobody wants, once its node has let go. Until then it tells when to look again; zero waits for a change.
func (r *controller) detach(ctx context.Context, v *corev1.PersistentVolume, a *storagev1.VolumeAttachment) (time.Duration, error) {
	if a.DeletionTimestamp != nil || v != nil && (v.Spec.CSI == nil || a.Name != attachmentName(v, a.Spec.NodeName)) {
		return 0, nil // it goes already, or is somebody else's
	}
	if v != nil {
		if wait, let, err := r.released(ctx, v, a.Spec.NodeName); err != nil || !let {
			return wait, err
		}
	}
	if err := r.attachmentWriter.Delete(ctx, a); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return 0, fmt.Errorf("detach volume %s from node %s: %w", *a.Spec.Source.PersistentVolumeName, a.Spec.NodeName, err)
	}
	return 0, nil
}

// released tells whether a node has let go of a volume, and has been told that it is not attached any more. That it has let go is asked of the API:
// the cache of nodes may be behind that of pods, and a volume that is taken from under a pod loses data.
func (r *controller) released(ctx context.Context, v *corev1.PersistentVolume, name string) (wait time.Duration, let bool, err error) {
	if node, ok := r.nodes.Get("", name); ok {
		if wait, let := r.letGo(node, uniqueName(v)); !let {
			return wait, false, nil
		}
	}
	node, err := r.clients.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0, true, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("read node %s, to which volume %s is attached: %w", name, v.Name, err)
	}
	if wait, let := r.letGo(node, uniqueName(v)); !let {
		return wait, false, nil
	}
	if slices.ContainsFunc(node.Status.VolumesAttached, func(o corev1.AttachedVolume) bool { return o.Name == uniqueName(v) }) {
		return time.Second, false, nil // the node is told first, by the loop of nodes
	}
	return 0, true, nil
}

// letGo tells whether a volume may be taken from a node.
func (r *controller) letGo(node *corev1.Node, volume corev1.UniqueVolumeName) (wait time.Duration, let bool) {
	if !slices.Contains(node.Status.VolumesInUse, volume) {
		return 0, true
	}
	for _, t := range node.Spec.Taints {
		if t.Key == corev1.TaintNodeOutOfService {
			return 0, true
		}
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			wait = c.LastTransitionTime.Add(forceAfter).Sub(r.clients.Now())
			return wait, wait <= 0
		}
	}
	return time.Minute, false
}
