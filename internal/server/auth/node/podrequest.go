package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// behind is a refusal that may be due to what the node has not seen yet. It is no "Forbidden", so that the node asks
// again.
type behind struct{ error }

// podRequestFor is a request with what it is called in messages.
type podRequestFor struct {
	*certificatesv1.PodCertificateRequest
	pod string
}

// restrictPodRequest lets a node ask for certificates of its own running pods: with the true names and UIDs of node, pod
// and service account, and of those signers that the pod's volumes name. All of these are read anew: who gets a
// certificate for a pod that is gone is that pod until the certificate ends.
func (n *restriction) restrictPodRequest(ctx context.Context, node string, c *registry.Change) error {
	if c.Operation != registry.Create {
		return fmt.Errorf("unexpected operation %v", c.Operation)
	}
	if c.View != "" {
		return fmt.Errorf("unexpected subresource %v", c.View)
	}
	object, ok := c.Object.(*certificatesv1.PodCertificateRequest)
	if !ok {
		return fmt.Errorf("unexpected type %T", c.Object)
	}
	r := podRequestFor{object, c.Namespace + "/" + object.Spec.PodName}
	if string(r.Spec.NodeName) != node {
		return fmt.Errorf("PodCertificateRequest.Spec.NodeName=%q, which is not the requesting node %q", r.Spec.NodeName, node)
	}
	own, err := newest[*corev1.Node](ctx, n.cluster, schema.GroupResource{Resource: "nodes"}, "", node)
	if err != nil {
		return r.notRead("node", node, err)
	}
	if own.UID != r.Spec.NodeUID {
		return r.behind("names node UID %q, inconsistent with the running node (%q)", r.Spec.NodeUID, own.UID)
	}
	p, err := n.pod(ctx, c.Namespace, r.Spec.PodName)
	if err != nil {
		return r.notRead("pod", r.pod, err)
	}
	if err := r.isOf(p); err != nil {
		return err
	}
	account, err := newest[*corev1.ServiceAccount](ctx, n.cluster, schema.GroupResource{Resource: "serviceaccounts"}, c.Namespace, r.Spec.ServiceAccountName)
	if err != nil {
		return r.notRead("service account", c.Namespace+"/"+r.Spec.ServiceAccountName, err)
	}
	if account.UID != r.Spec.ServiceAccountUID {
		return r.behind("names service account UID %q, which differs from the running service account (%q)", r.Spec.ServiceAccountUID, account.UID)
	}
	return n.restrictSigner(ctx, p, r, c)
}

func (r podRequestFor) behind(format string, values ...types.UID) error {
	return behind{fmt.Errorf("PodCertificateRequest for pod %q "+format, r.pod, values[0], values[1])}
}

// notRead is what a node is told if an object that it names cannot be read. It may not be there yet.
func (r podRequestFor) notRead(what, name string, err error) error {
	failed := fmt.Errorf("while retrieving %s %q named in the PodCertificateRequest: %w", what, name, err)
	if apierrors.IsNotFound(err) {
		return behind{errors.New(failed.Error())} // the request itself is not what has not been found
	}
	return failed
}

// isOf tells whether a request is for a pod.
func (r podRequestFor) isOf(p *corev1.Pod) error {
	if r.Spec.PodUID != p.UID {
		return r.behind("contains pod UID (%q) which differs from running pod %q", r.Spec.PodUID, p.UID)
	}
	if p.Spec.NodeName != string(r.Spec.NodeName) {
		return fmt.Errorf("pod %q is not running on node %q named in the PodCertificateRequest", r.pod, r.Spec.NodeName)
	}
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return fmt.Errorf("pod %q is a mirror pod", r.pod)
	}
	if r.Spec.ServiceAccountName != p.Spec.ServiceAccountName {
		return fmt.Errorf("PodCertificateRequest for pod %q contains serviceAccountName (%q) that differs from running pod (%q)",
			r.pod, r.Spec.ServiceAccountName, p.Spec.ServiceAccountName)
	}
	return nil
}

// restrictSigner gives a node certificates of those signers that its pod asks for, and of those that a role allows. A
// role cannot name what has a slash.
func (n *restriction) restrictSigner(ctx context.Context, p *corev1.Pod, r podRequestFor, c *registry.Change) error {
	if slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return asksSigner(&v, r.Spec.SignerName) }) {
		return nil
	}
	call := resource.CallFrom(ctx)
	user := auth.User{Name: call.User, UID: call.UID, Groups: call.Groups, Extra: call.Extra}
	if n.may != nil && n.may.Authorize(ctx, auth.Attributes{
		User: user, Verb: "request-serviceaccounts-podcertificate-signer", IsResource: true, Group: certificatesv1.GroupName, Version: "v1",
		Resource: strings.ReplaceAll(r.Spec.SignerName, "/", ":"), Namespace: c.Namespace, Name: r.Spec.ServiceAccountName,
	}).Allowed() {
		return nil
	}
	return fmt.Errorf("pod %q does not mount a podCertificate projected volume for signer %q", r.pod, r.Spec.SignerName)
}

func asksSigner(v *corev1.Volume, signer string) bool {
	return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
		return s.PodCertificate != nil && s.PodCertificate.SignerName == signer
	})
}

// newest reads an object as the store has it.
func newest[P resource.Object](ctx context.Context, c *cluster, gr schema.GroupResource, namespace, name string) (P, error) {
	var none P
	s, err := c.storage(gr)
	if err != nil {
		return none, err
	}
	if s == nil {
		return none, apierrors.NewNotFound(gr, name)
	}
	o, err := s.Get(ctx, namespace, name, registry.Freshness{})
	if err != nil {
		return none, err
	}
	decoded, err := s.Kind().Decode(ctx, o.Value(), o.Revision.String())
	if err != nil {
		return none, err
	}
	return decoded.(P), nil
}
