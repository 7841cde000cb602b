// Package pvprotection protects bound persistent volumes from deletion.
//
// Guarantees: a volume that is not being deleted has the finalizer kubernetes.io/pv-protection. A volume that is being
// deleted loses it when it is not bound.
package pvprotection

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/protection"
	"github.com/millrace/millrace/loop"
)

const (
	name      = "persistentvolume-protection-controller"
	finalizer = "kubernetes.io/pv-protection"
)

// Entry is this loop among the others.
var Entry = loop.Entry{Name: name, Aliases: []string{"pv-protection"}, New: New}

// New returns the loop.
func New(c *loop.Clients) (loop.Runner, error) {
	volumes := loop.Informer(c, informer.For(c.Kube.CoreV1().PersistentVolumes()))
	protected := &protection.Loop[*corev1.PersistentVolume]{
		Finalizer: finalizer, Objects: volumes, Used: bound,
		Writer: loop.NewWriter(informer.ResourceOf[*corev1.PersistentVolume](c.Kube.CoreV1().RESTClient(), "persistentvolumes"), volumes, ""),
	}
	return &loop.Loop{Name: name, Clients: c, Sync: protected.Sync, Watches: []loop.Watch{loop.Self(volumes)}}, nil
}

// bound needs no other reading than the volume's own: one that is bound meanwhile has another version.
func bound(_ context.Context, v *corev1.PersistentVolume) (bool, error) {
	return v.Status.Phase == corev1.VolumeBound, nil
}
