package admission

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/quota"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// storageObjectInUseProtection keeps volumes and claims until nobody uses them.
func storageObjectInUseProtection() registry.Admission {
	return mutating("StorageObjectInUseProtection", func(_ context.Context, c *registry.Change) error {
		var finalizer string
		switch {
		case creates(c, "persistentvolumeclaims"):
			finalizer = "kubernetes.io/pvc-protection"
		case creates(c, "persistentvolumes"):
			finalizer = "kubernetes.io/pv-protection"
		default:
			return nil
		}
		if all := c.Object.GetFinalizers(); !slices.Contains(all, finalizer) {
			c.Object.SetFinalizers(append(all, finalizer))
		}
		return nil
	})
}

// isDefault tells whether a class is marked by one of these annotations.
func isDefault(o resource.Object, annotations ...string) bool {
	return slices.ContainsFunc(annotations, func(a string) bool { return o.GetAnnotations()[a] == "true" })
}

// newestDefault is the class that counts where several are marked.
func newestDefault[P resource.Object](all []P, annotations ...string) (best P, found bool) {
	var marked []P
	for _, c := range all {
		if isDefault(c, annotations...) {
			marked = append(marked, c)
		}
	}
	if len(marked) == 0 {
		return best, false
	}
	return slices.MinFunc(marked, func(a, b P) int {
		return cmp.Or(b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
	}), true
}

// defaultStorageClass names the default class in claims that name none.
func (cl *cluster) defaultStorageClass() registry.Admission {
	return mutating("DefaultStorageClass", func(ctx context.Context, c *registry.Change) error {
		if !creates(c, "persistentvolumeclaims") {
			return nil
		}
		claim := c.Object.(*corev1.PersistentVolumeClaim)
		if _, old := claim.Annotations[corev1.BetaStorageClassAnnotation]; old || claim.Spec.StorageClassName != nil {
			return nil
		}
		all, err := cl.storageClasses.list(ctx, "")
		if err != nil {
			return err
		}
		if class, ok := newestDefault(all, "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"); ok {
			claim.Spec.StorageClassName = &class.Name
		}
		return nil
	})
}

// defaultIngressClass names the default class in ingresses that name none.
func (cl *cluster) defaultIngressClass() registry.Admission {
	return mutating("DefaultIngressClass", func(ctx context.Context, c *registry.Change) error {
		if c.Operation != registry.Create || c.View != "" || !is(c, "networking.k8s.io", "ingresses") {
			return nil
		}
		ingress := c.Object.(*networkingv1.Ingress)
		if _, old := ingress.Annotations["kubernetes.io/ingress.class"]; old || ingress.Spec.IngressClassName != nil {
			return nil
		}
		all, err := cl.ingressClasses.list(ctx, "")
		if err != nil {
			return err
		}
		if class, ok := newestDefault(all, networkingv1.AnnotationIsDefaultIngressClass); ok {
			ingress.Spec.IngressClassName = &class.Name
		}
		return nil
	})
}

// persistentVolumeClaimResize lets only bound claims grow whose class allows it.
func (cl *cluster) persistentVolumeClaimResize() registry.Admission {
	return validating("PersistentVolumeClaimResize", func(ctx context.Context, c *registry.Change) error {
		if c.Operation != registry.Update || c.View != "" || !is(c, "", "persistentvolumeclaims") {
			return nil
		}
		claim, old := c.Object.(*corev1.PersistentVolumeClaim), c.Old.(*corev1.PersistentVolumeClaim)
		now, was := claim.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
		if now.Cmp(was) <= 0 {
			return nil
		}
		if old.Status.Phase != corev1.ClaimBound {
			return forbidden(c, "Only bound persistent volume claims can be expanded")
		}
		class, err := cl.classOfBoth(ctx, claim, old)
		if err != nil {
			return err
		}
		if class == nil || class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion {
			return forbidden(c, "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize")
		}
		return nil
	})
}

func (cl *cluster) classOfBoth(ctx context.Context, claim, old *corev1.PersistentVolumeClaim) (*storagev1.StorageClass, error) {
	name := quota.StorageClass(claim)
	if name == "" || name != quota.StorageClass(old) {
		return nil, nil
	}
	class, err := cl.storageClasses.get(ctx, "", name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return class, err
}
