package attachdetach

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

const (
	// managed is the node annotation that says that this loop attaches volumes, not the kubelet.
	managed = "volumes.kubernetes.io/controller-managed-attach-detach"
	// forceAfter is how long a node that is not ready keeps its volumes.
	forceAfter = 6 * time.Minute
)

// attachmentName returns Kubernetes' name for an attachment.
func attachmentName(v *corev1.PersistentVolume, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(v.Spec.CSI.VolumeHandle+v.Spec.CSI.Driver+node)))
}

// uniqueName returns the name of a volume in a node's status.
func uniqueName(v *corev1.PersistentVolume) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + v.Spec.CSI.Driver + "^" + v.Spec.CSI.VolumeHandle)
}

// attachable reports whether a volume's driver needs attachments.
func (r *controller) attachable(v *corev1.PersistentVolume) bool {
	if v.Spec.CSI == nil {
		return false
	}
	d, ok := r.drivers.Get("", v.Spec.CSI.Driver)
	return !ok || d.Spec.AttachRequired == nil || *d.Spec.AttachRequired
}

// users returns the nodes whose pods use a volume, with one of these pods each.
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

// reference returns the object reference of a pod, for events.
func reference(p *podview.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}
}

// single reports whether a volume may be on one node only.
func single(v *corev1.PersistentVolume) bool {
	return len(v.Spec.AccessModes) > 0 && !slices.ContainsFunc(v.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
	})
}

// multiAttach returns the message for a volume that another node still has.
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

// generated is the form of the names that this loop gives to attachments. When the volume is gone, only the name tells
// who made the attachment.
var generated = regexp.MustCompile("^csi-[0-9a-f]{64}$")

// ours tells whether this loop made an attachment. Attachments that others made are left alone.
func ours(v *corev1.PersistentVolume, a *storagev1.VolumeAttachment) bool {
	if v == nil {
		return generated.MatchString(a.Name)
	}
	return v.Spec.CSI != nil && a.Name == attachmentName(v, a.Spec.NodeName)
}

// detach deletes an attachment that is not needed any more, once its node has released the volume. Until then it
// returns when to look again; zero means that a change will wake the loop.
func (r *controller) detach(ctx context.Context, v *corev1.PersistentVolume, a *storagev1.VolumeAttachment) (time.Duration, error) {
	if a.DeletionTimestamp != nil || !ours(v, a) {
		return 0, nil
	}
	forced := NotForced
	if v == nil {
		if there, err := r.exists(ctx, *a.Spec.Source.PersistentVolumeName); err != nil {
			return 0, err
		} else if there {
			return 0, loop.ErrBehind
		}
	} else {
		may, err := r.released(ctx, v, a.Spec.NodeName)
		if err != nil || !may.detach {
			return may.wait, err
		}
		forced = may.forced
	}
	if err := r.attachmentWriter.Delete(ctx, a); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return 0, fmt.Errorf("detach volume %s from node %s: %w", *a.Spec.Source.PersistentVolumeName, a.Spec.NodeName, err)
	}
	if forced != NotForced {
		r.Metrics.Forced(forced)
	}
	return 0, nil
}

// exists asks the API for a volume that the cache does not show: it may be behind that of attachments, and a node may
// use the volume. Kubernetes' role for this loop lets it list volumes, and not get one.
func (r *controller) exists(ctx context.Context, volume string) (bool, error) {
	named := fields.OneTermEqualSelector(metav1.ObjectNameField, volume).String()
	found, err := r.clients.Kube.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{FieldSelector: named})
	if err != nil {
		return false, fmt.Errorf("look for volume %s, which the cache does not show: %w", volume, err)
	}
	return len(found.Items) > 0, nil
}

// permission says whether a volume may be detached from a node, and if not, when to look again.
type permission struct {
	detach bool
	forced Force
	wait   time.Duration
}

// released reports whether a node has released a volume, and was told that it is no longer attached. The node is read
// from the API: the cache of nodes may be behind that of pods, and detaching a volume that a pod uses loses data.
func (r *controller) released(ctx context.Context, v *corev1.PersistentVolume, name string) (permission, error) {
	if node, ok := r.nodes.Get("", name); ok {
		if may := r.mayDetach(node, uniqueName(v)); !may.detach {
			return may, nil
		}
	}
	node, err := r.clients.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return permission{detach: true}, nil
	}
	if err != nil {
		return permission{}, fmt.Errorf("read node %s, to which volume %s is attached: %w", name, v.Name, err)
	}
	may := r.mayDetach(node, uniqueName(v))
	if may.detach && slices.ContainsFunc(node.Status.VolumesAttached, func(o corev1.AttachedVolume) bool { return o.Name == uniqueName(v) }) {
		return permission{wait: time.Second}, nil // the loop of nodes updates the node's status first
	}
	return may, nil
}

// mayDetach reports whether a volume may be detached from a node.
func (r *controller) mayDetach(node *corev1.Node, volume corev1.UniqueVolumeName) permission {
	if !slices.Contains(node.Status.VolumesInUse, volume) {
		return permission{detach: true}
	}
	for _, t := range node.Spec.Taints {
		if t.Key == corev1.TaintNodeOutOfService {
			return permission{detach: true, forced: OutOfService}
		}
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue && !r.NeverForce {
			wait := c.LastTransitionTime.Add(forceAfter).Sub(r.clients.Now())
			return permission{detach: wait <= 0, forced: TimedOut, wait: wait}
		}
	}
	return permission{wait: time.Minute}
}
