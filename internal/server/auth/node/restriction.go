package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// Restriction is the admission plugin NodeRestriction: what a node changes is its own, and nothing by which it would
// get more pods or secrets than it is given. may decides which audiences a node may ask tokens for.
func Restriction(r *registry.Registry, may auth.Authorizer) registry.Admission {
	n := &restriction{newCluster(r), may}
	return registry.Admission{Name: "NodeRestriction", Mutate: n.check}
}

type restriction struct {
	cluster *cluster
	may     auth.Authorizer
}

func (n *restriction) check(ctx context.Context, c *registry.Change) error {
	call := resource.CallFrom(ctx)
	if !strings.HasPrefix(call.User, auth.NodePrefix) {
		return nil
	}
	user := auth.User{Name: call.User, Groups: call.Groups}
	if !user.In(auth.Nodes) {
		return nil
	}
	node, ok := auth.NodeOf(user)
	if !ok {
		return apierrors.NewForbidden(c.Kind.GroupResource(), nameOf(c), fmt.Errorf("could not determine node from user %q", user.Name))
	}
	err := n.restrict(ctx, node, c)
	if late := (behind{}); err == nil || apierrors.IsNotFound(err) || errors.As(err, &late) {
		return err
	}
	return apierrors.NewForbidden(c.Kind.GroupResource(), nameOf(c), err)
}

func nameOf(c *registry.Change) string {
	if c.Name == "" && c.Object != nil {
		return c.Object.GetName()
	}
	return c.Name
}

func (n *restriction) restrict(ctx context.Context, node string, c *registry.Change) error {
	switch c.Kind.GroupResource() {
	case schema.GroupResource{Resource: "pods"}:
		return n.restrictPod(ctx, node, c)
	case schema.GroupResource{Resource: "nodes"}:
		return restrictNode(node, c)
	case schema.GroupResource{Resource: "persistentvolumeclaims"}:
		return restrictClaim(node, c)
	case schema.GroupResource{Resource: "serviceaccounts"}:
		return n.restrictToken(ctx, node, c)
	case schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}:
		if c.Namespace != corev1.NamespaceNodeLease {
			return fmt.Errorf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
		}
		return ownName(node, c, "node lease")
	case schema.GroupResource{Group: "storage.k8s.io", Resource: "csinodes"}:
		return ownName(node, c, "CSINode")
	case schema.GroupResource{Group: resourcev1.GroupName, Resource: "resourceslices"}:
		return restrictSlice(node, c)
	case podRequestResource:
		return n.restrictPodRequest(ctx, node, c)
	case schema.GroupResource{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests"}:
		return restrictRequest(node, c)
	}
	return nil
}

func ownName(node string, c *registry.Change, what string) error {
	if nameOf(c) != node {
		return fmt.Errorf("can only access %s with the same name as the requesting node", what)
	}
	return nil
}

// restrictSlice lets a node make and delete slices of its own devices. The node of a slice cannot be changed.
func restrictSlice(node string, c *registry.Change) error {
	of, verb := c.Object, "create"
	switch c.Operation {
	case registry.Delete:
		of, verb = c.Old, "delete"
	case registry.Update:
		return nil
	}
	s, ok := of.(*resourcev1.ResourceSlice)
	if !ok || s.Spec.NodeName == nil || *s.Spec.NodeName != node {
		return fmt.Errorf("can only %s ResourceSlice with the same NodeName as the requesting node", verb)
	}
	return nil
}

// restrictPod lets a node make and delete its mirror pods, report about its pods and evict them.
func (n *restriction) restrictPod(ctx context.Context, node string, c *registry.Change) error {
	switch c.View {
	case "":
		switch c.Operation {
		case registry.Create:
			return n.restrictMirror(ctx, node, c.Object.(*corev1.Pod))
		case registry.Delete:
			return n.bound(ctx, node, c, "node %q can only delete pods with spec.nodeName set to itself")
		}
		return fmt.Errorf("unexpected operation %q, node %q can only create and delete mirror pods", c.Operation, node)
	case "status":
		if c.Operation != registry.Update {
			return fmt.Errorf("unexpected operation %q", c.Operation)
		}
		return restrictStatus(node, c.Object.(*corev1.Pod), c.Old.(*corev1.Pod))
	case "eviction":
		return n.bound(ctx, node, c, "node %s can only evict pods with spec.nodeName set to itself")
	}
	return fmt.Errorf("unexpected pod subresource %q, only 'status' and 'eviction' are allowed", c.View)
}

// bound refuses what is about a pod of another node.
func (n *restriction) bound(ctx context.Context, node string, c *registry.Change, otherwise string) error {
	p, ok := c.Old.(*corev1.Pod)
	if !ok {
		var err error
		if p, err = n.pod(ctx, c.Namespace, nameOf(c)); err != nil {
			return err
		}
	}
	if p.Spec.NodeName != node {
		return fmt.Errorf(otherwise, node)
	}
	return nil
}

// pod reads a pod: the newest one if the cache does not know it yet.
func (n *restriction) pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return newest[*corev1.Pod](ctx, n.cluster, podResource, namespace, name)
}

func restrictStatus(node string, p, old *corev1.Pod) error {
	switch {
	case old.Spec.NodeName != node:
		return fmt.Errorf("node %q can only update pod status for pods with spec.nodeName set to itself", node)
	case !equality.Semantic.DeepEqual(old.Labels, p.Labels):
		return fmt.Errorf("node %q cannot update labels through pod status", node)
	case !equality.Semantic.DeepEqual(old.Status.ResourceClaimStatuses, p.Status.ResourceClaimStatuses):
		return fmt.Errorf("node %q cannot update resource claim statues", node)
	case !equality.Semantic.DeepEqual(old.Status.ExtendedResourceClaimStatus, p.Status.ExtendedResourceClaimStatus):
		return fmt.Errorf("node %q cannot update extended resource claim status", node)
	}
	return nil
}

// restrictClaim lets a node report the size of a claim's volume.
func restrictClaim(node string, c *registry.Change) error {
	if c.View != "status" {
		return errors.New("may only update PVC status")
	}
	if c.Operation != registry.Update {
		return fmt.Errorf("unexpected operation %q", c.Operation)
	}
	now, old := withoutSize(c.Object), withoutSize(c.Old)
	if !equality.Semantic.DeepEqual(now, old) {
		return fmt.Errorf("node %q is not allowed to update fields other than status.quantity and status.conditions", node)
	}
	return nil
}

func withoutSize(o resource.Object) *corev1.PersistentVolumeClaim {
	c := o.DeepCopyObject().(*corev1.PersistentVolumeClaim)
	c.ResourceVersion, c.ManagedFields = "", nil
	s := &c.Status
	s.Capacity, s.Conditions, s.AllocatedResources, s.AllocatedResourceStatuses = nil, nil, nil, nil
	return c
}

// restrictToken gives a node tokens for the pods that are bound to it, and nothing else.
func (n *restriction) restrictToken(ctx context.Context, node string, c *registry.Change) error {
	if c.Operation != registry.Create || c.View != "token" {
		return nil
	}
	r, ok := c.Body.(*authenticationv1.TokenRequest)
	if !ok {
		return fmt.Errorf("unexpected type %T", c.Body)
	}
	ref := r.Spec.BoundObjectRef
	switch {
	case ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "":
		return errors.New("node requested token not bound to a pod")
	case ref.UID == "":
		return errors.New("node requested token with a pod binding without a uid")
	}
	p, err := n.pod(ctx, c.Namespace, ref.Name)
	switch {
	case err != nil:
		return err
	case ref.UID != p.UID:
		return fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID)
	case p.Spec.NodeName != node:
		return errors.New("node requested token bound to a pod scheduled on a different node")
	}
	return n.restrictAudience(ctx, p, r.Spec.Audiences, c)
}
