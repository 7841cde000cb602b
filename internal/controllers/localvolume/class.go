package localvolume

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/loop"
)

const isDefault = "storageclass.kubernetes.io/is-default-class"

// defaultClass makes the storage class once, at the start.
func (r *controller) defaultClass(c *loop.Clients, classes *loop.Writer[*storagev1.StorageClass], class string) loop.Runner {
	return &loop.Loop{
		Name: name + "-class", Clients: c, Start: []loop.Key{{Name: class}}, Watches: []loop.Watch{loop.Reads(r.classes)},
		Sync: func(ctx context.Context, key loop.Key) (loop.Result, error) {
			return loop.Result{}, r.ensureClass(ctx, classes, key.Name)
		},
	}
}

func (r *controller) ensureClass(ctx context.Context, classes *loop.Writer[*storagev1.StorageClass], name string) error {
	marked := false
	for class := range r.classes.List() {
		if class.Provisioner == Provisioner {
			return nil
		}
		marked = marked || class.Annotations[isDefault] == "true"
	}
	class := &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: name},
		Provisioner:       Provisioner,
		ReclaimPolicy:     new(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	if !marked {
		class.Annotations = map[string]string{isDefault: "true"}
	}
	if _, err := classes.Create(ctx, class); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create storage class %s: %w", name, err)
	}
	return nil
}
