// Package attributesclassprotection protects VolumeAttributesClasses that volumes or claims use from deletion.
//
// Guarantees: a class that is not being deleted has the finalizer kubernetes.io/vac-protection. A class that is being
// deleted loses it when the API itself, not a cache, shows no volume and no claim that uses it.
package attributesclassprotection

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/protection"
	"github.com/millrace/millrace/loop"
)

const (
	name      = "volumeattributesclass-protection-controller"
	finalizer = "kubernetes.io/vac-protection"
)

// Entry is this loop among the others.
var Entry = loop.Entry{Name: name, New: New}

type controller struct{ kube kubernetes.Interface }

// New returns the loop. Its keys are classes.
func New(c *loop.Clients) (loop.Runner, error) {
	r := &controller{kube: c.Kube}
	classes := loop.Informer(c, informer.For(c.Kube.StorageV1().VolumeAttributesClasses()))
	protected := &protection.Loop[*storagev1.VolumeAttributesClass]{
		Finalizer: finalizer, Objects: classes, Used: r.used,
		Writer: loop.NewWriter(informer.ResourceOf[*storagev1.VolumeAttributesClass](c.Kube.StorageV1().RESTClient(), "volumeattributesclasses"), classes, ""),
	}
	return &loop.Loop{
		Name: name, Clients: c, Sync: protected.Sync,
		Watches: []loop.Watch{
			loop.Self(classes),
			loop.Changes(loop.Informer(c, informer.For(c.Kube.CoreV1().PersistentVolumeClaims(""))), func(before, after *corev1.PersistentVolumeClaim) []loop.Key {
				return left(ofClaim(before), ofClaim(after))
			}),
			loop.Changes(loop.Informer(c, informer.For(c.Kube.CoreV1().PersistentVolumes())), func(before, after *corev1.PersistentVolume) []loop.Key {
				return left(ofVolume(before), ofVolume(after))
			}),
		},
	}, nil
}

// ofClaim returns the classes of a claim: the wanted one, the current one, and the one that is being applied.
func ofClaim(c *corev1.PersistentVolumeClaim) []string {
	if c == nil {
		return nil
	}
	var all []string
	for _, name := range []*string{c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName} {
		if name != nil && *name != "" {
			all = append(all, *name)
		}
	}
	if s := c.Status.ModifyVolumeStatus; s != nil && s.TargetVolumeAttributesClassName != "" {
		all = append(all, s.TargetVolumeAttributesClassName)
	}
	return all
}

func ofVolume(v *corev1.PersistentVolume) []string {
	if v == nil || v.Spec.VolumeAttributesClassName == nil || *v.Spec.VolumeAttributesClassName == "" {
		return nil
	}
	return []string{*v.Spec.VolumeAttributesClassName}
}

// left returns the classes that are no longer used.
func left(before, after []string) []loop.Key {
	var keys []loop.Key
	for _, name := range before {
		if !slices.Contains(after, name) {
			keys = append(keys, loop.Key{Name: name})
		}
	}
	return keys
}

func (r *controller) used(ctx context.Context, object *storagev1.VolumeAttributesClass) (bool, error) {
	class := object.Name
	volumes, err := r.kube.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("list the volumes that may use class %s: %w", class, err)
	}
	for i := range volumes.Items {
		if slices.Contains(ofVolume(&volumes.Items[i]), class) {
			return true, nil
		}
	}
	claims, err := r.kube.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("list the claims that may use class %s: %w", class, err)
	}
	for i := range claims.Items {
		if slices.Contains(ofClaim(&claims.Items[i]), class) {
			return true, nil
		}
	}
	return false, nil
}
