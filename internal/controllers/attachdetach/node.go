package attachdetach

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/loop"
)

// syncNode updates the list of attached volumes in a node's status.
func (r *controller) syncNode(ctx context.Context, key loop.Key) (loop.Result, error) {
	node, ok := r.nodes.Lookup(key)
	if !ok {
		return loop.Result{}, nil
	}
	var attached []corev1.AttachedVolume
	for a := range r.attachments.By(byNode, node.Name) {
		if !a.Status.Attached || a.DeletionTimestamp != nil || a.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		volume, ok := r.volumes.Get("", *a.Spec.Source.PersistentVolumeName)
		if !ok || volume.Spec.CSI == nil || a.Name != attachmentName(volume, node.Name) {
			continue
		}
		if r.mayDetach(node, uniqueName(volume)).detach && r.users(volume)[node.Name] == nil {
			continue // it is about to be detached
		}
		attached = append(attached, corev1.AttachedVolume{Name: uniqueName(volume)})
	}
	slices.SortFunc(attached, func(a, b corev1.AttachedVolume) int { return strings.Compare(string(a.Name), string(b.Name)) })
	if slices.Equal(attached, sorted(node.Status.VolumesAttached)) {
		return loop.Result{}, nil
	}
	changed := node.DeepCopy()
	changed.Status.VolumesAttached = attached
	if _, err := r.nodeWriter.UpdateStatus(ctx, changed); err != nil && !apierrors.IsNotFound(err) {
		return loop.Result{}, fmt.Errorf("tell node %s what is attached: %w", node.Name, err)
	}
	return loop.Result{}, nil
}

func sorted(all []corev1.AttachedVolume) []corev1.AttachedVolume {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b corev1.AttachedVolume) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return all
}
