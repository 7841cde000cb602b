package rules

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// VolumeBinding places pods where their volumes can be used, and binds the claims with volumeBindingMode
// WaitForFirstConsumer.
type VolumeBinding struct {
	// Timeout is how long a pod waits until its volumes are bound. 0 means 10 minutes.
	Timeout time.Duration
	// Shape rates nodes by the utilization of their storage capacity. Empty: lower utilization is better.
	Shape Shape
}

// Reasons of VolumeBinding. A node may have several.
const (
	volumeElsewhere = "node(s) didn't match PersistentVolume's node affinity"
	nothingToBind   = "node(s) didn't find available persistent volumes to bind"
	tooLittleSpace  = "node(s) did not have enough free storage"
	volumeGone      = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
)

// bindTimeout is the default of VolumeBinding.Timeout.
const bindTimeout = 10 * time.Minute

// Name is VolumeBinding.
func (VolumeBinding) Name() string { return "VolumeBinding" }

// RequeuesOn lists nodes, their labels, and everything about volumes.
func (VolumeBinding) RequeuesOn() cluster.Change {
	return cluster.NodeAdded | cluster.NodeLabels |
		cluster.ClassChanged | cluster.ClaimChanged | cluster.VolumeChanged | cluster.DriverChanged
}

// Open sorts the pod's claims into bound and delayed ones.
func (vb VolumeBinding) Open(pod *cluster.Pod, state *cluster.State) (plugin.Case, error) {
	c := &binding{pod: pod, state: state, timeout: cmp.Or(vb.Timeout, bindTimeout), shape: vb.Shape}
	if len(c.shape) == 0 {
		c.shape = Shape{{Utilization: 0, Score: plugin.MaxScore}, {Utilization: 100, Score: 0}}
	}
	var immediate bool
	for i := range pod.Volumes {
		v := &pod.Volumes[i]
		if v.Claim == "" {
			continue
		}
		claim, err := usable(pod, v, state)
		if err != nil {
			return nil, err
		}
		switch delayed, err := waitsForConsumer(claim, state); {
		case fullyBound(claim):
			c.bound = append(c.bound, claim)
		case err != nil:
			return nil, err
		case delayed && claim.Spec.VolumeName == "":
			c.delayed = append(c.delayed, claim)
		default:
			immediate = true
		}
	}
	if immediate {
		return nil, plugin.Refusal("pod has unbound immediate PersistentVolumeClaims")
	}
	if len(c.bound) == 0 && len(c.delayed) == 0 {
		return nil, nil
	}
	slices.SortStableFunc(c.delayed, bySize)
	return c, nil
}

// usable returns a claim if the pod can use it.
func usable(pod *cluster.Pod, v *cluster.Volume, state *cluster.State) (*corev1.PersistentVolumeClaim, error) {
	claim, ok := state.Storage.Claim(cluster.Key{Namespace: pod.Key.Namespace, Name: v.Claim})
	switch {
	case !ok && v.Ephemeral:
		return nil, plugin.Refusal(fmt.Sprintf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", v.Claim))
	case !ok:
		return nil, claimNotFound(v.Claim)
	case claim.Status.Phase == corev1.ClaimLost:
		return nil, plugin.Refusal(fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", claim.Name, claim.Spec.VolumeName))
	case claim.DeletionTimestamp != nil:
		return nil, plugin.Refusal(fmt.Sprintf("persistentvolumeclaim %q is being deleted", claim.Name))
	case v.Ephemeral:
		return claim, belongsTo(pod, claim)
	}
	return claim, nil
}

// belongsTo returns an error if a claim has the name of an ephemeral volume of the pod but was not made for the pod.
func belongsTo(pod *cluster.Pod, claim *corev1.PersistentVolumeClaim) error {
	err := ephemeral.VolumeIsForPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Key.Namespace, Name: pod.Key.Name, UID: pod.UID,
	}}, claim)
	if err != nil {
		return plugin.Refusal(err.Error())
	}
	return nil
}

func fullyBound(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted)
}

// waitsForConsumer reports whether a claim is bound only when a pod that uses it has a node.
func waitsForConsumer(claim *corev1.PersistentVolumeClaim, state *cluster.State) (bool, error) {
	name := volume.GetPersistentVolumeClaimClass(claim)
	if name == "" {
		return false, nil
	}
	class, ok := state.Storage.Class(name)
	switch {
	case !ok:
		return false, nil
	case class.VolumeBindingMode == nil:
		return false, fmt.Errorf("VolumeBindingMode not set for StorageClass %q", name)
	}
	return *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer, nil
}

func bySize(a, b *corev1.PersistentVolumeClaim) int {
	x, y := a.Spec.Resources.Requests[corev1.ResourceStorage], b.Spec.Resources.Requests[corev1.ResourceStorage]
	return x.Cmp(y)
}

// binding is the rule's case for one pod.
type binding struct {
	pod            *cluster.Pod
	state          *cluster.State
	timeout        time.Duration
	shape          Shape
	bound, delayed []*corev1.PersistentVolumeClaim

	candidates map[string]*candidates // by class

	// The reservation.
	node    string
	volumes []*corev1.PersistentVolume      // to be bound to delayed claims
	claims  []*corev1.PersistentVolumeClaim // to be provisioned
}

// plan has the volumes for the delayed claims on a node.
type plan struct {
	volumes    []match
	provisions []provision
}

type match struct {
	volume *corev1.PersistentVolume
	claim  *corev1.PersistentVolumeClaim
}

// provision is a claim for which a volume will be provisioned. room is nil if no capacity is published.
type provision struct {
	claim *corev1.PersistentVolumeClaim
	room  *storagev1.CSIStorageCapacity
}

// Filter refuses nodes where a bound volume cannot be used, or no volume can be found or provisioned.
func (bi *binding) Filter(node *cluster.Node) *plugin.Verdict {
	reasons := bi.checkBound(node)
	if len(bi.delayed) > 0 {
		_, more := bi.plan(node)
		reasons = append(reasons, more...)
		slices.SortFunc(reasons, func(a, b string) int { return cmp.Compare(rank[a], rank[b]) })
	}
	if len(reasons) == 0 {
		return nil
	}
	return &plugin.Verdict{Plugin: VolumeBinding{}.Name(), Reasons: reasons, Lasting: true}
}

// rank is the order of the reasons in messages.
var rank = map[string]int{volumeElsewhere: 0, nothingToBind: 1, tooLittleSpace: 2, volumeGone: 3}

func (bi *binding) checkBound(node *cluster.Node) []string {
	for _, claim := range bi.bound {
		v, ok := bi.state.Storage.Volume(claim.Spec.VolumeName)
		if !ok {
			return []string{volumeGone}
		}
		if volume.CheckNodeAffinity(v, node.Labels) != nil {
			return []string{volumeElsewhere}
		}
	}
	return nil
}

// plan finds usable volumes for the delayed claims on a node, or returns the reasons why there are none.
func (bi *binding) plan(node *cluster.Node) (plan, []string) {
	var p plan
	var missing []*corev1.PersistentVolumeClaim
	taken := make(map[string]*corev1.PersistentVolume)
	for _, claim := range bi.delayed {
		if selected, ok := claim.Annotations[volume.AnnSelectedNode]; ok {
			if selected != node.Name {
				return plan{}, []string{nothingToBind}
			}
			missing = append(missing, claim)
			continue
		}
		v := bi.match(claim, node, taken)
		if v == nil {
			missing = append(missing, claim)
			continue
		}
		taken[v.Name] = v
		p.volumes = append(p.volumes, match{v, claim})
	}
	for _, claim := range missing {
		room, reason := bi.canProvision(claim, node)
		if reason != "" {
			return plan{}, []string{reason}
		}
		p.provisions = append(p.provisions, provision{claim, room})
	}
	return p, nil
}

func (bi *binding) match(claim *corev1.PersistentVolumeClaim, node *cluster.Node, taken map[string]*corev1.PersistentVolume) *corev1.PersistentVolume {
	class := volume.GetPersistentVolumeClaimClass(claim)
	list, ok := bi.candidates[class]
	if !ok {
		list = bi.candidatesOf(class)
		if bi.candidates == nil {
			bi.candidates = make(map[string]*candidates)
		}
		bi.candidates[class] = list
	}
	at := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels}}
	v, err := volume.FindMatchingVolume(claim, list.near(node), at, taken, true, true)
	if err != nil {
		return nil
	}
	return v
}

// canProvision returns the reason why no volume can be provisioned for a claim on a node, or "".
func (bi *binding) canProvision(claim *corev1.PersistentVolumeClaim, node *cluster.Node) (*storagev1.CSIStorageCapacity, string) {
	class, ok := bi.state.Storage.Class(volume.GetPersistentVolumeClaimClass(claim))
	if !ok || class.Provisioner == "" || class.Provisioner == volume.NotSupportedProvisioner {
		return nil, nothingToBind
	}
	if !inTopology(class.AllowedTopologies, node.Labels) {
		return nil, nothingToBind
	}
	driver, ok := bi.state.Storage.Driver(class.Provisioner)
	size, sized := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if !sized || !ok || driver.Spec.StorageCapacity == nil || !*driver.Spec.StorageCapacity {
		return nil, ""
	}
	for capacity := range bi.state.Storage.Capacities(class.Name) {
		limit := capacity.MaximumVolumeSize
		if limit == nil {
			limit = capacity.Capacity
		}
		if limit != nil && limit.Value() >= size.Value() && reaches(capacity, node.Labels) {
			return capacity, ""
		}
	}
	return nil, tooLittleSpace
}

func reaches(capacity *storagev1.CSIStorageCapacity, of map[string]string) bool {
	if capacity.NodeTopology == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(capacity.NodeTopology)
	return err == nil && selector.Matches(labels.Set(of))
}

// inTopology reports whether one of the terms matches the labels, or there are no terms.
func inTopology(terms []corev1.TopologySelectorTerm, of map[string]string) bool {
	if len(terms) == 0 {
		return true
	}
	return slices.ContainsFunc(terms, func(term corev1.TopologySelectorTerm) bool {
		return len(term.MatchLabelExpressions) > 0 &&
			!slices.ContainsFunc(term.MatchLabelExpressions, func(e corev1.TopologySelectorLabelRequirement) bool {
				value, ok := of[e.Key]
				return !ok || !slices.Contains(e.Values, value)
			})
	})
}
