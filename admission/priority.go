package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/registry"
)

var (
	pods            = schema.GroupResource{Resource: "pods"}
	priorityClasses = schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}
)

// Priority gives a new pod the number and the preemption policy of its class.
func Priority(r func() *registry.Registry) registry.Admission {
	return registry.Admission{Name: "Priority", Mutate: func(ctx context.Context, c *registry.Change) error {
		if c.Kind.GroupResource() != pods || c.Operation != registry.Create || c.View != "" {
			return nil
		}
		return prioritize(ctx, r(), c.Object.(*corev1.Pod))
	}}
}

func prioritize(ctx context.Context, r *registry.Registry, pod *corev1.Pod) error {
	class, err := classOf(ctx, r, pod.Spec.PriorityClassName)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return apierrors.NewForbidden(pods, pod.Name, fmt.Errorf("no PriorityClass with name %v was found", pod.Spec.PriorityClassName))
		}
		return err
	}
	value, policy := int32(0), corev1.PreemptLowerPriority
	if class != nil {
		value = class.Value
		pod.Spec.PriorityClassName = class.Name
		if class.PreemptionPolicy != nil {
			policy = *class.PreemptionPolicy
		}
	}
	if pod.Spec.Priority != nil && *pod.Spec.Priority != value {
		return apierrors.NewForbidden(pods, pod.Name,
			fmt.Errorf("the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name", *pod.Spec.Priority, value))
	}
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy != policy {
		return apierrors.NewForbidden(pods, pod.Name,
			fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name", *pod.Spec.PreemptionPolicy, policy))
	}
	pod.Spec.Priority, pod.Spec.PreemptionPolicy = &value, &policy
	return nil
}

// classOf finds a class by its name, or the global default if no name is given; nil if there is none.
func classOf(ctx context.Context, r *registry.Registry, name string) (*schedulingv1.PriorityClass, error) {
	if name != "" {
		o, err := find(ctx, r, priorityClasses, "", name)
		if err != nil {
			return nil, err
		}
		return o.(*schedulingv1.PriorityClass), nil
	}
	kind, ok := r.Catalogue.Kind(priorityClasses)
	if !ok {
		return nil, nil
	}
	storage, err := r.Storage(kind)
	if err != nil {
		return nil, err
	}
	list, err := storage.List(ctx, registry.ListQuery{Freshness: registry.Freshness{Any: true}})
	if err != nil {
		return nil, err
	}
	var best *schedulingv1.PriorityClass
	for _, o := range list.Objects {
		decoded, err := kind.Codec.Decode(o.Value(), o.Revision.String())
		if err != nil {
			return nil, err
		}
		if c := decoded.(*schedulingv1.PriorityClass); c.GlobalDefault && (best == nil || c.Value < best.Value) {
			best = c
		}
	}
	return best, nil
}
