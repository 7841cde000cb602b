package connections

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func (c *Connections) pod(q request) (*corev1.Pod, error) {
	return find[*corev1.Pod](q.ctx, c, "pods", q.target.Namespace, q.target.Name)
}

// containerOf checks the name of a container, or returns the pod's only container.
func containerOf(pod *corev1.Pod, name string) (string, error) {
	if name != "" {
		if !slices.Contains(allContainers(pod), name) {
			return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
		}
		return name, nil
	}
	if len(pod.Spec.Containers) == 1 {
		return pod.Spec.Containers[0].Name, nil
	}
	message := "a container name must be specified for pod " + pod.Name
	if len(pod.Spec.Containers) > 0 {
		message += fmt.Sprintf(", choose one of: [%s]", strings.Join(containerNames(pod.Spec.Containers), " "))
		if len(pod.Spec.InitContainers) > 0 {
			message += fmt.Sprintf(" or one of the init containers: [%s]", strings.Join(containerNames(pod.Spec.InitContainers), " "))
		}
	}
	return "", apierrors.NewBadRequest(message)
}

func containerNames(containers []corev1.Container) []string {
	names := make([]string, 0, len(containers))
	for _, c := range containers {
		names = append(names, c.Name)
	}
	return names
}

func allContainers(pod *corev1.Pod) []string {
	names := append(containerNames(pod.Spec.Containers), containerNames(pod.Spec.InitContainers)...)
	for _, c := range pod.Spec.EphemeralContainers {
		names = append(names, c.Name)
	}
	return names
}

func noHost(pod *corev1.Pod) error {
	return apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod.Name))
}
