// Package ephemeralvolume makes claims for the ephemeral volumes of pods.
//
// Guarantees: each ephemeral volume of a pod that is not being deleted has a claim, named after pod and volume, that
// the pod owns, so that it is deleted with the pod. An existing claim of that name with another owner is not changed,
// and an event says so.
package ephemeralvolume

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/loop"
)

const name = "ephemeral-volume-controller"

// Options configure the loop.
type Options struct {
	// Created, if set, is called after each attempt to make a claim.
	Created func(err error)
}

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	if o.Created == nil {
		o.Created = func(error) {}
	}
	return loop.Entry{Name: name, Aliases: []string{"ephemeral-volume"}, Source: "ephemeral_volume", New: o.new}
}

type controller struct {
	Options
	kube     kubernetes.Interface
	recorder loop.Recorder
	pods     *informer.Shared[*podview.Pod]
	claims   *informer.Shared[*corev1.PersistentVolumeClaim]
	writer   *loop.Writer[*corev1.PersistentVolumeClaim]
}

// new returns the loop. Its keys are pods.
func (o Options) new(c *loop.Clients) (loop.Runner, error) {
	r := &controller{
		Options: o,

		kube: c.Kube, recorder: c.Recorder, pods: podview.Informer(c),
		claims: loop.Informer(c, informer.For(c.Kube.CoreV1().PersistentVolumeClaims(""))),
	}
	r.writer = loop.NewWriter(informer.ResourceOf[*corev1.PersistentVolumeClaim](c.Kube.CoreV1().RESTClient(), "persistentvolumeclaims"), r.claims, "")
	return &loop.Loop{
		Name: name, Clients: c, Workers: 4, Sync: r.sync,
		Watches: []loop.Watch{
			loop.Self(r.pods, func(before, after *podview.Pod) bool { return after != nil && after.Ephemeral && before == nil }),
			loop.Changes(r.claims, podOf),
		},
	}, nil
}

// podOf returns the owner of a deleted claim.
func podOf(before, after *corev1.PersistentVolumeClaim) []loop.Key {
	if after != nil {
		return nil
	}
	if owner := metav1.GetControllerOfNoCopy(before); owner != nil && owner.Kind == "Pod" {
		return []loop.Key{{Namespace: before.Namespace, Name: owner.Name}}
	}
	return nil
}

func (r *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	view, ok := r.pods.Lookup(key)
	if !ok || !view.Ephemeral || view.DeletionTimestamp != nil {
		return loop.Result{}, nil
	}
	// The cached pod has no claim templates, so it is read from the API.
	pod, err := r.kube.CoreV1().Pods(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (pod.UID != view.UID || pod.DeletionTimestamp != nil) {
		return loop.Result{}, nil
	}
	if err != nil {
		return loop.Result{}, fmt.Errorf("read pod %s: %w", key, err)
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
			continue
		}
		if err := r.claim(ctx, pod, v); err != nil {
			r.recorder.Eventf(pod, corev1.EventTypeWarning, "FailedBinding", "ephemeral volume %s: %v", v.Name, err)
			return loop.Result{}, fmt.Errorf("pod %s, ephemeral volume %s: %w", key, v.Name, err)
		}
	}
	return loop.Result{}, nil
}

// claim makes the claim of a volume.
func (r *controller) claim(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) error {
	name := demand.Claim(pod.Name, v)
	if have, ok := r.claims.Get(pod.Namespace, name); ok {
		if !metav1.IsControlledBy(have, pod) {
			return fmt.Errorf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", have.Namespace, have.Name, pod.Namespace, pod.Name)
		}
		return nil
	}
	template := v.Ephemeral.VolumeClaimTemplate
	_, err := r.writer.Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: pod.Namespace, Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: template.Spec,
	})
	r.Created(err)
	if err != nil {
		return fmt.Errorf("create PVC %s: %w", name, err)
	}
	return nil
}
