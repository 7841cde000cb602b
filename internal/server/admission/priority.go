package admission

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/registry"
)

// priority gives a new pod the number and the preemption policy of its class, and lets one class be the default.
func (cl *cluster) priority() registry.Admission {
	return registry.Admission{
		Name: "Priority",
		Mutate: func(ctx context.Context, c *registry.Change) error {
			switch {
			case c.View != "" || !is(c, "", "pods"):
				return nil
			case c.Operation == registry.Create:
				return cl.prioritize(ctx, c, c.Object.(*corev1.Pod))
			case c.Operation == registry.Update:
				keepPriority(c.Object.(*corev1.Pod), c.Old.(*corev1.Pod))
			}
			return nil
		},
		Validate: func(ctx context.Context, c *registry.Change) error {
			if c.View != "" || !is(c, "scheduling.k8s.io", "priorityclasses") || c.Operation != registry.Create && c.Operation != registry.Update {
				return nil
			}
			return cl.oneDefault(ctx, c, c.Object.(*schedulingv1.PriorityClass))
		},
	}
}

// keepPriority lets an update leave out what the server has filled in.
func keepPriority(pod, old *corev1.Pod) {
	if pod.Spec.Priority == nil {
		pod.Spec.Priority = old.Spec.Priority
	}
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = old.Spec.PreemptionPolicy
	}
}

func (cl *cluster) prioritize(ctx context.Context, c *registry.Change, pod *corev1.Pod) error {
	class, err := cl.classOf(ctx, pod.Spec.PriorityClassName)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return forbidden(c, "no PriorityClass with name %v was found", pod.Spec.PriorityClassName)
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
	if p := pod.Spec.Priority; p != nil && *p != value {
		return forbidden(c, "the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name", *p, value)
	}
	if p := pod.Spec.PreemptionPolicy; p != nil && *p != policy {
		return forbidden(c, "the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name", *p, policy)
	}
	pod.Spec.Priority, pod.Spec.PreemptionPolicy = &value, &policy
	return nil
}

// classOf finds a class by its name, or the default if no name is given; nil if there is none.
func (cl *cluster) classOf(ctx context.Context, name string) (*schedulingv1.PriorityClass, error) {
	if name != "" {
		return cl.priorityClasses.get(ctx, "", name)
	}
	all, err := cl.priorityClasses.list(ctx, "")
	if err != nil {
		return nil, err
	}
	var best *schedulingv1.PriorityClass
	for _, c := range all {
		if c.GlobalDefault && (best == nil || c.Value < best.Value) {
			best = c
		}
	}
	return best, nil
}

func (cl *cluster) oneDefault(ctx context.Context, c *registry.Change, class *schedulingv1.PriorityClass) error {
	if !class.GlobalDefault {
		return nil
	}
	present, err := cl.classOf(ctx, "")
	if err != nil || present == nil || present.Name == class.Name {
		return err
	}
	return forbidden(c, "PriorityClass %v is already marked as default. Only one default can exist", present.Name)
}
