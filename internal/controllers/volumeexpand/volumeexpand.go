// Package volumeexpand records events for claims that ask for more than they have.
//
// Guarantees: when a bound claim asks for more than its status has, an event says that an external resizer must expand
// it, once for each change of the claim. Nothing is expanded here: there are no volumes left that Kubernetes' own loop
// could expand.
package volumeexpand

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

const name = "persistentvolume-expander-controller"

// Entry is this loop among the others.
var Entry = loop.Entry{Name: name, Aliases: []string{"persistentvolume-expander"}, Source: "volume_expand", New: New}

type controller struct {
	recorder loop.Recorder
	claims   *informer.Shared[*corev1.PersistentVolumeClaim]
	volumes  *informer.Shared[*corev1.PersistentVolume]
}

// New returns the loop. Its keys are claims.
func New(c *loop.Clients) (loop.Runner, error) {
	r := &controller{
		recorder: c.Recorder,
		claims:   loop.Informer(c, informer.For(c.Kube.CoreV1().PersistentVolumeClaims(""))),
		volumes:  loop.Informer(c, informer.For(c.Kube.CoreV1().PersistentVolumes())),
	}
	return &loop.Loop{
		Name: name, Clients: c, Sync: r.sync,
		Watches: []loop.Watch{loop.Self(r.claims, grows), loop.Reads(r.volumes)},
	}, nil
}

// grows accepts a claim that asks for more than before, or, when it is seen first, for more than it has.
func grows(before, after *corev1.PersistentVolumeClaim) bool {
	if after == nil || after.Status.Phase != corev1.ClaimBound {
		return false
	}
	now := after.Spec.Resources.Requests[corev1.ResourceStorage]
	than := after.Status.Capacity[corev1.ResourceStorage]
	if before != nil {
		than = before.Spec.Resources.Requests[corev1.ResourceStorage]
	}
	return now.Cmp(than) > 0
}

func (r *controller) sync(_ context.Context, key loop.Key) (loop.Result, error) {
	claim, ok := r.claims.Lookup(key)
	if !ok || claim.Status.Phase != corev1.ClaimBound {
		return loop.Result{}, nil
	}
	volume, ok := r.volumes.Get("", claim.Spec.VolumeName)
	if !ok || volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID != claim.UID {
		return loop.Result{}, nil
	}
	wanted, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	if wanted.Cmp(has) <= 0 {
		return loop.Result{}, nil
	}
	r.recorder.Eventf(claim, corev1.EventTypeNormal, "ExternalExpanding", "waiting for an external controller to expand this PVC")
	return loop.Result{}, nil
}
