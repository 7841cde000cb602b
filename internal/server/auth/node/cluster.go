package node

import (
	"context"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// cluster is what relations are looked up in.
type cluster struct {
	registry *registry.Registry
	pods     *podIndex
}

func newCluster(r *registry.Registry) *cluster { return &cluster{registry: r, pods: newPodIndex(r)} }

// relates tells whether a node has to do with an object. With newest the cache first comes as far as the store is.
func (c *cluster) relates(ctx context.Context, node string, of thing, namespace, name string, newest bool) (bool, error) {
	if newest {
		r := c.registry
		rev, err := r.Cache.Fresh(ctx)
		if err != nil {
			return false, err
		}
		if err := r.Cache.WaitFor(ctx, rev); err != nil {
			return false, err
		}
	}
	switch of {
	case attachment:
		a, err := read[*storagev1.VolumeAttachment](ctx, c, schema.GroupResource{Group: storagev1.GroupName, Resource: "volumeattachments"}, "", name)
		return a != nil && a.Spec.NodeName == node, err
	case slice:
		s, err := read[*resourcev1.ResourceSlice](ctx, c, schema.GroupResource{Group: resourcev1.GroupName, Resource: "resourceslices"}, "", name)
		return s != nil && s.Spec.NodeName != nil && *s.Spec.NodeName == node, err
	case podRequest:
		r, err := read[*certificatesv1.PodCertificateRequest](ctx, c, podRequestResource, namespace, name)
		return r != nil && string(r.Spec.NodeName) == node, err
	case volume:
		return c.usesVolume(ctx, node, name)
	case secret:
		if ok, err := c.uses(ctx, node, of, namespace, name); ok || err != nil {
			return ok, err
		}
		return c.volumesNeed(ctx, node, namespace, name)
	}
	return c.uses(ctx, node, of, namespace, name)
}

// uses tells whether one of a node's pods names an object.
func (c *cluster) uses(ctx context.Context, node string, of thing, namespace, name string) (bool, error) {
	if of == pod {
		return c.pods.has(ctx, node, podName{namespace, name})
	}
	return c.any(ctx, node, func(p *podUse, at podName) bool {
		return at.namespace == namespace && slices.Contains(p.names[of], name)
	})
}

// any tells whether something is true of one of a node's pods.
func (c *cluster) any(ctx context.Context, node string, is func(*podUse, podName) bool) (bool, error) {
	all, err := c.pods.of(ctx, node)
	if err != nil {
		return false, err
	}
	for _, p := range all {
		use, err := p.use(ctx, c)
		if err != nil {
			return false, err
		}
		if use != nil && is(use, p.podName) {
			return true, nil
		}
	}
	return false, nil
}

// usesVolume tells whether one of a node's pods has the claim that a volume is bound to.
func (c *cluster) usesVolume(ctx context.Context, node, name string) (bool, error) {
	v, err := read[*corev1.PersistentVolume](ctx, c, volumes, "", name)
	if v == nil || v.Spec.ClaimRef == nil || err != nil {
		return false, err
	}
	return c.uses(ctx, node, claim, v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name)
}

// volumesNeed tells whether one of the volumes of a node's pods names a secret.
func (c *cluster) volumesNeed(ctx context.Context, node, namespace, name string) (bool, error) {
	var failed error
	found, err := c.any(ctx, node, func(p *podUse, at podName) bool {
		return slices.ContainsFunc(p.names[claim], func(of string) bool {
			ok, err := c.volumeNeeds(ctx, at.namespace, of, namespace, name)
			if err != nil {
				failed = err
			}
			return ok
		})
	})
	if err == nil && !found {
		err = failed
	}
	return found, err
}

func (c *cluster) volumeNeeds(ctx context.Context, namespace, claimed, secretNamespace, name string) (bool, error) {
	pvc, err := read[*corev1.PersistentVolumeClaim](ctx, c, schema.GroupResource{Resource: "persistentvolumeclaims"}, namespace, claimed)
	if pvc == nil || pvc.Spec.VolumeName == "" || err != nil {
		return false, err
	}
	v, err := read[*corev1.PersistentVolume](ctx, c, volumes, "", pvc.Spec.VolumeName)
	if v == nil || err != nil {
		return false, err
	}
	if ref := v.Spec.ClaimRef; ref == nil || ref.Namespace != namespace || ref.Name != claimed {
		return false, nil // the volume says which claim it belongs to
	}
	return slices.Contains(volumeSecrets(v), corev1.SecretReference{Namespace: secretNamespace, Name: name}), nil
}

var (
	volumes            = schema.GroupResource{Resource: "persistentvolumes"}
	podRequestResource = schema.GroupResource{Group: certificatesv1.GroupName, Resource: "podcertificaterequests"}
)

// storage is nil if the kind is not served.
func (c *cluster) storage(gr schema.GroupResource) (*registry.Storage, error) {
	r := c.registry
	kind, ok := r.Catalogue.Kind(gr)
	if !ok {
		return nil, nil
	}
	return r.Storage(kind)
}

// read reads an object as the cache has it. It is nil if there is none.
func read[P resource.Object](ctx context.Context, c *cluster, gr schema.GroupResource, namespace, name string) (P, error) {
	var none P
	s, err := c.storage(gr)
	if s == nil || err != nil {
		return none, err
	}
	o, err := s.Get(ctx, namespace, name, registry.Freshness{Any: true})
	if err != nil {
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return none, err
	}
	decoded, err := s.Kind().Decode(ctx, o.Value(), o.Revision.String())
	if err != nil {
		return none, err
	}
	return decoded.(P), nil
}
