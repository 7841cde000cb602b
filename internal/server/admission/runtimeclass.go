package admission

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/registry"
)

// runtimeClass adds to a pod what its way of running costs, and where it can be had.
func (cl *cluster) runtimeClass() registry.Admission {
	return mutating("RuntimeClass", func(ctx context.Context, c *registry.Change) error {
		if !creates(c, "pods") {
			return nil
		}
		pod := c.Object.(*corev1.Pod)
		var class *nodev1.RuntimeClass
		if name := pod.Spec.RuntimeClassName; name != nil {
			var err error
			if class, err = cl.runtimeClasses.get(ctx, "", *name); apierrors.IsNotFound(err) {
				return forbidden(c, "pod rejected: RuntimeClass %q not found", *name)
			} else if err != nil {
				return err
			}
		}
		if err := setOverhead(c, pod, class); err != nil || class == nil || class.Scheduling == nil {
			return err
		}
		return setScheduling(c, pod, class.Scheduling)
	})
}

func setOverhead(c *registry.Change, pod *corev1.Pod, class *nodev1.RuntimeClass) error {
	switch {
	case class == nil || class.Overhead == nil:
		if len(pod.Spec.Overhead) > 0 {
			return forbidden(c, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
		}
		return nil
	case len(pod.Spec.Overhead) > 0 && !equality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead):
		return forbidden(c, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
	}
	pod.Spec.Overhead = class.Overhead.PodFixed.DeepCopy()
	return nil
}

func setScheduling(c *registry.Change, pod *corev1.Pod, s *nodev1.Scheduling) error {
	for key, want := range s.NodeSelector {
		if is, ok := pod.Spec.NodeSelector[key]; ok && is != want {
			return forbidden(c, "conflict: runtimeClass.Scheduling.NodeSelector[%s] = %s; pod.Spec.NodeSelector[%s] = %s", key, want, key, is)
		}
	}
	for key, want := range s.NodeSelector {
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = map[string]string{}
		}
		pod.Spec.NodeSelector[key] = want
	}
	for _, t := range s.Tolerations {
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(p corev1.Toleration) bool { return equality.Semantic.DeepEqual(p, t) }) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, *t.DeepCopy())
		}
	}
	return nil
}
