// Package pvprotection protects bound persistent volumes from deletion.
//
// Guarantees: a volume that is not being deleted has the finalizer kubernetes.io/pv-protection. A volume that is being
// deleted loses it when it is not bound.
package pvprotection

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

const (
	name      = "persistentvolume-protection-controller"
	finalizer = "kubernetes.io/pv-protection"
)

// Entry is this loop among the others.
var Entry = loop.Entry{Name: name, Aliases: []string{"pv-protection"}, New: New}

type controller struct {
	kube    kubernetes.Interface
	volumes *informer.Shared[*corev1.PersistentVolume]
	writes  loop.Writes
}

// New returns the loop.
func New(c *loop.Clients) (loop.Runner, error) {
	p := &controller{kube: c.Kube, volumes: loop.Informer(c, informer.For(c.Kube.CoreV1().PersistentVolumes()))}
	return &loop.Loop{Name: name, Clients: c, Sync: p.sync, Watches: []loop.Watch{loop.Self(p.volumes)}}, nil
}

// sync adds or removes a volume's finalizer.
func (c *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	if err := c.writes.Settled(ctx, key); err != nil {
		return loop.Result{}, err
	}
	volume, ok := c.volumes.Lookup(key)
	if !ok {
		c.writes.Forget(key)
		return loop.Result{}, nil
	}
	has, going := slices.Contains(volume.Finalizers, finalizer), volume.DeletionTimestamp != nil
	if has != going || going && volume.Status.Phase == corev1.VolumeBound {
		return loop.Result{}, nil
	}
	changed := volume.DeepCopy()
	if has {
		changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == finalizer })
	} else {
		changed.Finalizers = append(changed.Finalizers, finalizer)
	}
	// With the resource version, so that a volume that is bound meanwhile leads to a conflict.
	written, err := c.kube.CoreV1().PersistentVolumes().Update(ctx, changed, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return loop.Result{}, nil
	}
	if err != nil {
		return loop.Result{}, fmt.Errorf("update the finalizers of volume %s: %w", key.Name, err)
	}
	c.writes.Wrote(key, c.volumes, written.ResourceVersion)
	return loop.Result{}, nil
}
