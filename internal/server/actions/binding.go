package actions

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

var bindingResource = schema.GroupResource{Resource: "pods/binding"}

// bind assigns a pod to a node.
func bind(ctx context.Context, c *apiserver.ActionCall) (runtime.Object, int, error) {
	b := c.Body.(*corev1.Binding)
	if b.Name != c.Name {
		return nil, 0, apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	if err := checkBinding(b); err != nil {
		return nil, 0, err
	}
	opt := registry.UpdateOptions{WriteOptions: c.Options, View: "binding", Own: true}
	_, _, err := c.Storage.Update(ctx, c.Namespace, c.Name, func(_ context.Context, old resource.Object) (resource.Object, error) {
		return assign(old.(*corev1.Pod), b)
	}, opt)
	if err != nil {
		return nil, 0, err
	}
	return success()
}

func checkBinding(b *corev1.Binding) error {
	var errs field.ErrorList
	if b.Target.Kind != "" && b.Target.Kind != "Node" {
		errs = append(errs, field.NotSupported(field.NewPath("target", "kind"), b.Target.Kind, []string{"Node", "<empty>"}))
	}
	if name := field.NewPath("target", "name"); b.Target.Name == "" {
		errs = append(errs, field.Required(name, ""))
	} else {
		for _, wrong := range validation.NameIsDNSSubdomain(b.Target.Name, false) {
			errs = append(errs, field.Invalid(name, b.Target.Name, wrong))
		}
	}
	metadata := field.NewPath("metadata")
	errs = append(errs, metav1validation.ValidateLabels(b.Labels, metadata.Child("labels"))...)
	errs = append(errs, validation.ValidateAnnotations(b.Annotations, metadata.Child("annotations"))...)
	if len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Binding"}, b.Name, errs)
	}
	return nil
}

// assign returns the bound pod, or the reason why it cannot be bound.
func assign(old *corev1.Pod, b *corev1.Binding) (*corev1.Pod, error) {
	refuse := func(format string, args ...any) (*corev1.Pod, error) {
		return nil, apierrors.NewConflict(bindingResource, old.Name, fmt.Errorf(format, args...))
	}
	differ := func(format string, args ...any) (*corev1.Pod, error) {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, old.Name, fmt.Errorf(format, args...))
	}
	switch {
	case b.UID != "" && b.UID != old.UID:
		return differ("Precondition failed: UID in precondition: %v, UID in object meta: %v", b.UID, old.UID)
	case b.ResourceVersion != "" && b.ResourceVersion != old.ResourceVersion:
		return differ("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", b.ResourceVersion, old.ResourceVersion)
	case old.DeletionTimestamp != nil:
		return refuse("pod %s is being deleted, cannot be assigned to a host", old.Name)
	case old.Spec.NodeName != "":
		return refuse("pod %v is already assigned to node %q", old.Name, old.Spec.NodeName)
	case len(old.Spec.SchedulingGates) > 0:
		return refuse("pod %v has non-empty .spec.schedulingGates", old.Name)
	}
	pod := old.DeepCopy()
	pod.Spec.NodeName, pod.Status.NominatedNodeName = b.Target.Name, ""
	if len(b.Annotations) > 0 {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		maps.Copy(pod.Annotations, b.Annotations)
		if errs := validation.ValidateAnnotations(pod.Annotations, field.NewPath("metadata", "annotations")); len(errs) > 0 {
			return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, old.Name, errs) // together they may be too long
		}
	}
	if len(b.Labels) > 0 {
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		maps.Copy(pod.Labels, b.Labels)
	}
	setCondition(pod, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	return pod, nil
}

// setCondition replaces the pod's condition of that type. The transition time changes only with the status.
func setCondition(pod *corev1.Pod, c corev1.PodCondition) {
	c.LastTransitionTime = metav1.Now()
	c.ObservedGeneration = 0
	for i, present := range pod.Status.Conditions {
		if present.Type != c.Type {
			continue
		}
		if present.Status == c.Status {
			c.LastTransitionTime = present.LastTransitionTime
		}
		pod.Status.Conditions[i] = c
		return
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}
