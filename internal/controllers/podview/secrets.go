package podview

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// secrets returns the names of the secrets that a pod uses, each once.
func secrets(pod *corev1.Pod) []string {
	var all []string
	add := func(name string) {
		if name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	for _, ref := range pod.Spec.ImagePullSecrets {
		add(ref.Name)
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			environment(containers[i].EnvFrom, containers[i].Env, add)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		environment(c.EnvFrom, c.Env, add)
	}
	for i := range pod.Spec.Volumes {
		volumeSecrets(&pod.Spec.Volumes[i], add)
	}
	return all
}

func environment(sources []corev1.EnvFromSource, variables []corev1.EnvVar, add func(string)) {
	for _, from := range sources {
		if from.SecretRef != nil {
			add(from.SecretRef.Name)
		}
	}
	for _, v := range variables {
		if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
			add(v.ValueFrom.SecretKeyRef.Name)
		}
	}
}

func volumeSecrets(v *corev1.Volume, add func(string)) {
	switch {
	case v.Secret != nil:
		add(v.Secret.SecretName)
	case v.CSI != nil && v.CSI.NodePublishSecretRef != nil:
		add(v.CSI.NodePublishSecretRef.Name)
	case v.ISCSI != nil && v.ISCSI.SecretRef != nil:
		add(v.ISCSI.SecretRef.Name)
	case v.FlexVolume != nil && v.FlexVolume.SecretRef != nil:
		add(v.FlexVolume.SecretRef.Name)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				add(s.Secret.Name)
			}
		}
	}
}
