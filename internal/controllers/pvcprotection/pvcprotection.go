// Package pvcprotection protects persistent volume claims that pods use from deletion.
//
// Guarantees: a claim that is not being deleted has the finalizer kubernetes.io/pvc-protection. A claim that is being
// deleted loses it when no scheduled pod of its namespace that has not ended uses it. The API is read for that, because
// a cache may not show the last pod yet.
package pvcprotection

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/protection"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/loop"
)

const (
	name      = "persistentvolumeclaim-protection-controller"
	finalizer = "kubernetes.io/pvc-protection"
)

// Entry is this loop among the others.
var Entry = loop.Entry{Name: name, Aliases: []string{"pvc-protection"}, New: New}

type controller struct {
	kube   kubernetes.Interface
	claims *informer.Shared[*corev1.PersistentVolumeClaim]
}

// New returns the loop.
func New(c *loop.Clients) (loop.Runner, error) {
	p := &controller{kube: c.Kube, claims: loop.Informer(c, informer.For(c.Kube.CoreV1().PersistentVolumeClaims("")))}
	protected := &protection.Loop[*corev1.PersistentVolumeClaim]{
		Finalizer: finalizer, Objects: p.claims, Used: p.used,
		Writer: loop.NewWriter(informer.ResourceOf[*corev1.PersistentVolumeClaim](c.Kube.CoreV1().RESTClient(), "persistentvolumeclaims"), p.claims, ""),
	}
	return &loop.Loop{
		Name: name, Clients: c, Workers: 2, Sync: protected.Sync,
		Watches: []loop.Watch{loop.Self(p.claims), loop.Changes(podview.Informer(c), p.released)},
	}, nil
}

// released returns the claims that may no longer be used, when a pod has ended: those of its namespace that are being
// deleted.
func (c *controller) released(before, after *podview.Pod) []loop.Key {
	// A pod that has ended and was deleted at once may appear only as a deletion.
	if before == nil || after != nil && (before.Finished() || !after.Finished()) {
		return nil
	}
	var keys []loop.Key
	for claim := range c.claims.ListNamespace(before.Namespace) {
		if claim.DeletionTimestamp != nil {
			keys = append(keys, informer.KeyOf(claim))
		}
	}
	return keys
}

// used reports whether a scheduled pod that has not ended uses a claim.
func (c *controller) used(ctx context.Context, claim *corev1.PersistentVolumeClaim) (bool, error) {
	pods, err := c.kube.CoreV1().Pods(claim.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("list the pods that may use claim %s: %w", informer.KeyOf(claim), err)
	}
	return slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
		return pod.Spec.NodeName != "" && !loop.PodFinished(&pod) && uses(&pod, claim)
	}), nil
}

// uses reports whether a pod uses a claim, by name or as an ephemeral volume.
func uses(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return demand.Claim(pod.Name, &v) == claim.Name && (v.Ephemeral == nil || metav1.IsControlledBy(claim, pod))
	})
}
