package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// restrictMirror lets a node show a pod that it has from elsewhere, if the pod is bound to it, owned by it and uses
// nothing of the API.
func (n *restriction) restrictMirror(ctx context.Context, node string, p *corev1.Pod) error {
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; !mirror {
		return fmt.Errorf("pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, node)
	}
	if p.Spec.NodeName != node {
		return fmt.Errorf("node %q can only create pods with spec.nodeName set to itself", node)
	}
	switch len(p.OwnerReferences) {
	case 0:
		return fmt.Errorf("node %q can only create pods with an owner reference set to itself", node)
	case 1:
	default:
		return fmt.Errorf("node %q can only create pods with a single owner reference set to itself", node)
	}
	owner := &p.OwnerReferences[0]
	switch {
	case owner.APIVersion != "v1" || owner.Kind != "Node" || owner.Name != node:
		return fmt.Errorf("node %q can only create pods with an owner reference set to itself", node)
	case owner.Controller == nil || !*owner.Controller:
		return fmt.Errorf("node %q can only create pods with a controller owner reference set to itself", node)
	case owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion:
		return fmt.Errorf("node %q must not set blockOwnerDeletion on an owner reference", node)
	}
	self, err := read[*corev1.Node](ctx, n.cluster, schema.GroupResource{Resource: "nodes"}, "", node)
	switch {
	case err != nil:
		return err
	case self == nil:
		return fmt.Errorf("node %q not found", node)
	case owner.UID != self.UID:
		return fmt.Errorf("node %s UID mismatch: expected %s got %s", node, owner.UID, self.UID)
	}
	if what := apiReference(p); what != "" {
		return fmt.Errorf("node %q can not create pods that reference %s", node, what)
	}
	return nil
}

// apiReference names an object of the API that a pod refers to, or is empty.
func apiReference(p *corev1.Pod) string {
	plain := p.DeepCopy()
	delete(plain.Annotations, corev1.MirrorPodAnnotationKey)
	plain.Spec.Volumes = nil
	use := useOf(plain, 0)
	for _, what := range []struct {
		of   thing
		name string
	}{{account, "serviceaccounts"}, {secret, "secrets"}, {configMap, "configmaps"}} {
		if len(use.names[what.of]) > 0 {
			return what.name
		}
	}
	if len(p.Spec.ResourceClaims) > 0 {
		return "resourceclaims"
	}
	for i := range p.Spec.Volumes {
		if what := volumeReference(&p.Spec.Volumes[i]); what != "" {
			return what
		}
	}
	return ""
}

func volumeReference(v *corev1.Volume) string {
	switch {
	case v.ConfigMap != nil:
		return "configmaps (via configmap volumes)"
	case v.Secret != nil:
		return "secrets (via secret volumes)"
	case v.CSI != nil:
		return "csidrivers (via CSI volumes)"
	case v.Glusterfs != nil:
		return "endpoints (via glusterFS volumes)"
	case v.PersistentVolumeClaim != nil:
		return "persistentvolumeclaims"
	case v.Ephemeral != nil:
		return "persistentvolumeclaims (via ephemeral volumes)"
	case v.AzureFile != nil:
		return "secrets (via azureFile volumes)"
	case localSecret(&v.VolumeSource) != nil:
		return "secrets"
	case v.Projected != nil:
		return projectedReference(v.Projected.Sources)
	}
	return ""
}

func projectedReference(sources []corev1.VolumeProjection) string {
	for _, s := range sources {
		switch {
		case s.ConfigMap != nil:
			return "configmaps (via projected volumes)"
		case s.Secret != nil:
			return "secrets (via projected volumes)"
		case s.ServiceAccountToken != nil:
			return "serviceaccounts (via projected volumes)"
		case s.ClusterTrustBundle != nil:
			return "clustertrustbundles"
		case s.PodCertificate != nil:
			return "podcertificates"
		}
	}
	return ""
}
