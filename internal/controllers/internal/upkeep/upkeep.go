// Package upkeep creates, patches and deletes the pods of an object. It records events about the object, and delays the
// loop's next sync until its cache shows the writes, including those that may have succeeded, so that no pod is counted
// twice or not at all.
package upkeep

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// Pods writes the pods of a loop. All fields are required.
type Pods struct {
	Kube     kubernetes.Interface
	Recorder loop.Recorder
	Cache    *informer.Shared[*podview.Pod]
}

// Create creates a pod of owner.
func (p *Pods) Create(ctx context.Context, owner runtime.Object, pod *corev1.Pod) error {
	written, err := p.Kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return p.notCreated(ctx, owner, pod.Namespace, err)
	}
	loop.Wrote(ctx, p.Cache, written.ResourceVersion)
	p.Recorder.Eventf(owner, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %v", written.Name)
	return nil
}

func (p *Pods) notCreated(ctx context.Context, owner runtime.Object, namespace string, err error) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return err
	}
	if unsure(err) {
		p.catchUp(ctx, namespace)
	}
	p.Recorder.Eventf(owner, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
	return err
}

// unsure reports whether a failed write may have succeeded: no server has said that it did not.
func unsure(err error) bool {
	var answer apierrors.APIStatus
	return !errors.As(err, &answer) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// catchUp delays the next sync until the cache shows everything up to now, so that a pod whose creation got no answer
// is counted.
func (p *Pods) catchUp(ctx context.Context, namespace string) {
	now, err := p.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err == nil {
		loop.Wrote(ctx, p.Cache, now.ResourceVersion)
	}
}

// Delete deletes pods of owner. A pod that is gone or was replaced is no error.
func (p *Pods) Delete(ctx context.Context, owner runtime.Object, pods []*podview.Pod) error {
	_, err := loop.SlowStart(ctx, len(pods), func(ctx context.Context, i int) error {
		pod := pods[i]
		err := p.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &pod.UID},
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			p.Recorder.Eventf(owner, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
			return err
		}
		loop.Removed(ctx, p.Cache, pod)
		if err == nil {
			p.Recorder.Eventf(owner, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %v", pod.Name)
		}
		return nil
	})
	return err
}

// Patch applies a strategic merge patch to a pod.
func (p *Pods) Patch(ctx context.Context, pod *podview.Pod, patch []byte) error {
	written, err := p.Kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("patch pod %s: %w", informer.KeyOf(pod), err)
	}
	loop.Wrote(ctx, p.Cache, written.ResourceVersion)
	return nil
}
