package cluster

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
)

// Demand is what a pod requires of a node, independent of other pods.
type Demand struct {
	Requests    demand.Resources
	Scored      demand.Resources // cpu and memory, with defaults for containers without requests
	Ports       []demand.Port
	Match       demand.NodeMatch
	Preferred   []demand.WeightedNodeTerm
	Tolerations []corev1.Toleration
	Images      []string // normalised, one for each container
	readers     []PodReader
	read        []string // the results of the readers
}

// PodReader reads a part of a pod for the rule with this name.
type PodReader struct {
	Name string
	Read func(*corev1.Pod) string
}

// Read returns the result of the rule's reader for the pod; empty if it has none.
func (d *Demand) Read(name string) string {
	for i := range d.readers {
		if d.readers[i].Name == name {
			return d.read[i]
		}
	}
	return ""
}

// Tolerates reports whether the pod tolerates a taint.
func (d *Demand) Tolerates(taint *corev1.Taint) bool {
	return demand.Tolerates(d.Tolerations, taint)
}

func imagesOf(spec *corev1.PodSpec) []string {
	var images []string
	for i := range spec.InitContainers {
		images = append(images, normalImage(spec.InitContainers[i].Image))
	}
	for i := range spec.Containers {
		images = append(images, normalImage(spec.Containers[i].Image))
	}
	slices.Sort(images)
	return images
}

// normalImage adds the tag "latest" to a name without a tag, as in node statuses.
func normalImage(name string) string {
	if strings.LastIndexByte(name, ':') <= strings.LastIndexByte(name, '/') {
		return name + ":latest"
	}
	return name
}
