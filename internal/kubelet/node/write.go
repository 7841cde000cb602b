package node

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// requestTime bounds a request, so that a request that hangs does not stop a node's heartbeat.
const requestTime = 10 * time.Second

// request returns the context of a request for a node.
func (h *Heartbeats) request(ctx context.Context, node string) (context.Context, context.CancelFunc) {
	if h.As != nil {
		ctx = h.As(ctx, node)
	}
	return context.WithTimeout(ctx, requestTime)
}

// register creates a node, or updates the existing one. With NoRegister it only tells the status of one that exists.
func (h *Heartbeats) register(ctx context.Context, i int) error {
	facts := h.Facts(i)
	if h.NoRegister {
		return h.status(ctx, i)
	}
	ctx, cancel := h.request(ctx, facts.Name)
	defer cancel()
	wanted := facts.Node(time.Now())
	_, err := h.Kube.CoreV1().Nodes().Create(ctx, wanted, metav1.CreateOptions{})
	if err == nil {
		h.nodes[i].statusAt = time.Now()
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := h.relabel(ctx, wanted); err != nil {
		return err
	}
	return h.status(ctx, i)
}

// relabel sets the labels that the kubelet owns.
func (h *Heartbeats) relabel(ctx context.Context, wanted *corev1.Node) error {
	node, err := h.Kube.CoreV1().Nodes().Get(ctx, wanted.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	before := node.DeepCopy()
	for k, v := range wanted.Labels {
		metav1.SetMetaDataLabel(&node.ObjectMeta, k, v)
	}
	for k, v := range wanted.Annotations {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, k, v)
	}
	if node.Spec.PodCIDR == "" && wanted.Spec.PodCIDR != "" {
		node.Spec.PodCIDR, node.Spec.PodCIDRs = wanted.Spec.PodCIDR, wanted.Spec.PodCIDRs
	}
	if equality.Semantic.DeepEqual(before, node) {
		return nil
	}
	_, err = h.Kube.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
	return err
}

// status writes a node's status. A node that was deleted is not created again.
func (h *Heartbeats) status(ctx context.Context, i int) error {
	facts := h.Facts(i)
	ctx, cancel := h.request(ctx, facts.Name)
	defer cancel()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error { // controllers write to the node as well
		node, err := h.Kube.CoreV1().Nodes().Get(ctx, facts.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		facts.fill(&node.Status, time.Now())
		_, err = h.Kube.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
	if err == nil {
		h.nodes[i].statusAt = time.Now()
	}
	return err
}

// renew renews a node's lease.
func (h *Heartbeats) renew(ctx context.Context, i int) error {
	name := h.Facts(i).Name
	ctx, cancel := h.request(ctx, name)
	defer cancel()
	leases := h.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease := h.leaseOf(name)
	if h.nodes[i].lease == "" {
		existing, err := leases.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return h.createLease(ctx, i, lease)
		}
		if err != nil {
			return err
		}
		if len(existing.OwnerReferences) == 0 { // so that it is deleted together with its node
			if err := h.own(ctx, i, name); err != nil {
				return err
			}
		} else {
			h.nodes[i].owner = existing.OwnerReferences[0].UID
		}
		h.nodes[i].lease = existing.ResourceVersion
	}
	lease.OwnerReferences = ownedBy(name, h.nodes[i].owner)
	lease.ResourceVersion = h.nodes[i].lease
	written, err := leases.Update(ctx, lease, metav1.UpdateOptions{})
	if err != nil {
		h.nodes[i].lease = ""
		return err
	}
	h.nodes[i].lease = written.ResourceVersion
	return nil
}

func (h *Heartbeats) leaseOf(name string) *coordinationv1.Lease {
	seconds := int32(h.LeaseFor / time.Second)
	now := metav1.NewMicroTime(time.Now())
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: corev1.NamespaceNodeLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
}

// createLease creates a node's lease, owned by the node.
func (h *Heartbeats) createLease(ctx context.Context, i int, lease *coordinationv1.Lease) error {
	if err := h.own(ctx, i, lease.Name); err != nil {
		return err
	}
	lease.OwnerReferences = ownedBy(lease.Name, h.nodes[i].owner)
	written, err := h.Kube.CoordinationV1().Leases(lease.Namespace).Create(ctx, lease, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	h.nodes[i].lease = written.ResourceVersion
	return nil
}

// own finds the UID of the node that owns a lease.
func (h *Heartbeats) own(ctx context.Context, i int, name string) error {
	node, err := h.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		h.nodes[i].owner = node.UID
	}
	return err
}

func ownedBy(name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: uid}}
}
