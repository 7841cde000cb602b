package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Labels of nodes that have other names now.
var renamedNodeLabels = map[string]string{
	"beta.kubernetes.io/arch":                  `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                    `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"failure-domain.beta.kubernetes.io/region": `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	"failure-domain.beta.kubernetes.io/zone":   `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	"beta.kubernetes.io/instance-type":         `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
}

// NodeLabelWarning tells what a label of nodes has been replaced by.
func NodeLabelWarning(key string) (string, bool) {
	w, old := renamedNodeLabels[key]
	return w, old
}

// Warnings tell what is allowed and probably not meant.
func Warnings(s *corev1.PodSpec, annotations map[string]string, spec, meta *field.Path) []string {
	var w []string
	for key := range s.NodeSelector {
		if text, old := renamedNodeLabels[key]; old {
			w = append(w, fmt.Sprintf("%s: %s", spec.Child("nodeSelector").Key(key), text))
		}
	}
	w = append(w, affinityWarnings(s.Affinity, spec)...)
	for i := range s.TopologySpreadConstraints {
		t := &s.TopologySpreadConstraints[i]
		if text, old := renamedNodeLabels[t.TopologyKey]; old {
			w = append(w, fmt.Sprintf("%s: %s is %s", spec.Child("topologySpreadConstraints").Index(i).Child("topologyKey"), t.TopologyKey, text))
		}
		if t.LabelSelector == nil {
			w = append(w, fmt.Sprintf("%s: a null labelSelector results in matching no pod", spec.Child("topologySpreadConstraints").Index(i).Child("labelSelector")))
		}
	}
	for key := range annotations {
		if text := annotationWarning(key); text != "" {
			w = append(w, fmt.Sprintf("%s: %s", meta.Key(key), text))
		}
	}
	for i := range s.ImagePullSecrets {
		if s.ImagePullSecrets[i].Name == "" {
			w = append(w, fmt.Sprintf("%s: invalid empty name %q", spec.Child("imagePullSecrets").Index(i).Child("name"), ""))
		}
	}
	for i := range s.Volumes {
		w = append(w, volumeWarnings(&s.Volumes[i].VolumeSource, spec, i)...)
	}
	w = append(w, containerWarnings(s.InitContainers, spec, "initContainers")...)
	return append(w, containerWarnings(s.Containers, spec, "containers")...)
}

func annotationWarning(key string) string {
	switch {
	case key == "scheduler.alpha.kubernetes.io/critical-pod":
		return `non-functional in v1.16+; use the "priorityClassName" field instead`
	case key == seccompPodAnnotation || strings.HasPrefix(key, seccompPrefixAnnotation):
		return `non-functional in v1.27+; use the "seccompProfile" field instead`
	case strings.HasPrefix(key, appArmorAnnotation):
		return `deprecated since v1.30; use the "appArmorProfile" field instead`
	}
	return ""
}

func affinityWarnings(a *corev1.Affinity, spec *field.Path) []string {
	if a == nil {
		return nil
	}
	var w []string
	look := func(name string, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		path := spec.Child("affinity", name)
		for i := range required {
			if required[i].LabelSelector == nil {
				w = append(w, fmt.Sprintf("%s: a null labelSelector results in matching no pod",
					path.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i).Child("labelSelector")))
			}
		}
		for i := range preferred {
			if preferred[i].PodAffinityTerm.LabelSelector == nil {
				w = append(w, fmt.Sprintf("%s: a null labelSelector results in matching no pod",
					path.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("podAffinityTerm", "labelSelector")))
			}
		}
	}
	if n := a.PodAffinity; n != nil {
		look("podAffinity", n.RequiredDuringSchedulingIgnoredDuringExecution, n.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if n := a.PodAntiAffinity; n != nil {
		look("podAntiAffinity", n.RequiredDuringSchedulingIgnoredDuringExecution, n.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return w
}

func volumeWarnings(s *corev1.VolumeSource, spec *field.Path, i int) []string {
	old := ""
	switch {
	case s.PhotonPersistentDisk != nil:
		old = "photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+"
	case s.GitRepo != nil:
		old = "gitRepo: deprecated in v1.11, and disabled by default in v1.33+"
	case s.ScaleIO != nil:
		old = "scaleIO: deprecated in v1.16, non-functional in v1.22+"
	case s.Flocker != nil:
		old = "flocker: deprecated in v1.22, non-functional in v1.25+"
	case s.StorageOS != nil:
		old = "storageOS: deprecated in v1.22, non-functional in v1.25+"
	case s.Quobyte != nil:
		old = "quobyte: deprecated in v1.22, non-functional in v1.25+"
	case s.Glusterfs != nil:
		old = "glusterfs: deprecated in v1.25, non-functional in v1.26+"
	case s.CephFS != nil:
		old = "cephfs: deprecated in v1.28, non-functional in v1.31+"
	case s.RBD != nil:
		old = "rbd: deprecated in v1.28, non-functional in v1.31+"
	}
	if old == "" {
		return nil
	}
	return []string{spec.Child("volumes").Index(i).String() + "." + old}
}

func containerWarnings(containers []corev1.Container, spec *field.Path, name string) []string {
	var w []string
	for i := range containers {
		c := &containers[i]
		seenEnv := map[string]bool{}
		for j := range c.Env {
			if n := c.Env[j].Name; seenEnv[n] {
				w = append(w, fmt.Sprintf("%s: hides previous definition of %q, which may be dropped when using apply",
					spec.Child(name).Index(i).Child("env").Index(j), n))
			} else {
				seenEnv[n] = true
			}
		}
		w = append(w, portWarnings(c.Ports, func() *field.Path { return spec.Child(name).Index(i).Child("ports") })...)
		for _, l := range [...]struct {
			name string
			list corev1.ResourceList
		}{{"limits", c.Resources.Limits}, {"requests", c.Resources.Requests}} {
			for _, r := range [...]corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
				if q, ok := l.list[r]; ok && q.MilliValue()%1000 != 0 {
					w = append(w, fmt.Sprintf("%s: fractional byte value %q is invalid, must be an integer",
						spec.Child(name).Index(i).Child("resources").Child(l.name).Key(string(r)), q.String()))
				}
			}
		}
	}
	return w
}

func portWarnings(ports []corev1.ContainerPort, path func() *field.Path) []string {
	if len(ports) < 2 {
		return nil
	}
	type exposed struct {
		port     int32
		protocol corev1.Protocol
		host     int32
		ip       string
	}
	var w []string
	first := map[exposed]int{}
	for i, p := range ports {
		key := exposed{p.ContainerPort, p.Protocol, p.HostPort, p.HostIP}
		if j, dup := first[key]; dup {
			w = append(w, fmt.Sprintf("%s: duplicate port definition with %s", path().Index(i), path().Index(j)))
			continue
		}
		first[key] = i
	}
	return w
}

// TemplateWarnings are those about a template of pods.
func TemplateWarnings(t *corev1.PodTemplateSpec, path *field.Path) []string {
	return Warnings(&t.Spec, t.Annotations, path.Child("spec"), path.Child("metadata", "annotations"))
}
