package disruption

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/internal/controllers/podview"
)

// expectation returns how many pods are expected, and how many of them must be healthy.
func (co *controller) expectation(ctx context.Context, b *policyv1.PodDisruptionBudget, pods []*podview.Pod) (expected, desired int, err error) {
	if n := b.Spec.MinAvailable; n != nil && n.Type == intstr.Int {
		return len(pods), n.IntValue(), nil
	}
	part := b.Spec.MinAvailable
	if b.Spec.MaxUnavailable != nil {
		part = b.Spec.MaxUnavailable
	}
	if part == nil {
		return 0, 0, nil
	}
	expected, err = co.declared(ctx, b, pods)
	if err != nil {
		return 0, 0, err
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(part, expected, true)
	if err != nil {
		return 0, 0, err
	}
	if b.Spec.MaxUnavailable != nil {
		return expected, max(0, expected-n), nil
	}
	return expected, n, nil
}

// declared returns the sum of the sizes of the pods' controllers.
func (co *controller) declared(ctx context.Context, b *policyv1.PodDisruptionBudget, pods []*podview.Pod) (int, error) {
	sizes := map[types.UID]int{}
	total, unmanaged := 0, false
	for _, p := range pods {
		ref := metav1.GetControllerOfNoCopy(p)
		if ref == nil {
			unmanaged = true
			continue
		}
		if _, known := sizes[ref.UID]; known {
			continue
		}
		owner, size, err := co.scale(ctx, p.Namespace, ref)
		if apierrors.IsNotFound(err) {
			return 0, fmt.Errorf("found no controllers for pod %q", p.Name)
		}
		if err != nil {
			return 0, err
		}
		if _, known := sizes[owner]; !known {
			total += size
		}
		sizes[ref.UID], sizes[owner] = size, size
	}
	if unmanaged {
		co.recorder.Eventf(b, corev1.EventTypeWarning, "UnmanagedPods",
			"Pods selected by this PodDisruptionBudget (selector: %v) were found to be unmanaged. "+
				"As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. "+
				"To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.",
			b.Spec.Selector)
	}
	return total, nil
}

// scale returns the size of a controller. For a ReplicaSet that a Deployment owns, it is the Deployment's.
func (co *controller) scale(ctx context.Context, namespace string, ref *metav1.OwnerReference) (owner types.UID, size int, err error) {
	if ref.Kind == "ReplicaSet" {
		if set, ok := co.sets.Get(namespace, ref.Name); ok && set.UID == ref.UID {
			if parent := metav1.GetControllerOfNoCopy(set); parent != nil {
				ref = parent
			}
		}
	}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	resource, err := co.resourceOf(kind)
	if err != nil {
		return "", 0, err
	}
	o, err := co.dynamic.Resource(resource).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{}, "scale")
	if err != nil {
		return "", 0, fmt.Errorf("read the scale of %s %s: %w", ref.Kind, ref.Name, err)
	}
	if o.GetUID() != "" && o.GetUID() != ref.UID {
		return "", 0, fmt.Errorf("%s %s is another one by now", ref.Kind, ref.Name)
	}
	replicas, _, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
	return ref.UID, int(replicas), err
}

// resourceOf returns the resource of a kind with a scale subresource.
func (co *controller) resourceOf(kind schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	list, err := co.discovery.ServerResourcesForGroupVersion(kind.GroupVersion().String())
	if err != nil {
		return schema.GroupVersionResource{}, fmt.Errorf("look up %s: %w", kind, err)
	}
	scales, none := map[string]bool{}, fmt.Errorf("%s has no scale", kind)
	for i := range list.APIResources {
		scales[list.APIResources[i].Name] = true
	}
	for i := range list.APIResources {
		r := &list.APIResources[i]
		switch {
		case r.Kind != kind.Kind || strings.Contains(r.Name, "/"):
		case scales[r.Name+"/scale"]:
			return kind.GroupVersion().WithResource(r.Name), nil
		default:
			none = fmt.Errorf("%s does not implement the scale subresource", kind.GroupVersion().WithResource(r.Name).GroupResource())
		}
	}
	return schema.GroupVersionResource{}, none
}
