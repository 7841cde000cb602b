package cluster

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/demand"
)

// Demand is what a pod asks of a node by itself, whatever runs elsewhere.
type Demand struct {
	Requests    demand.Resources
	Scored      demand.Resources // cpu and memory with defaults for containers that name none
	Ports       []demand.Port
	Match       demand.NodeMatch
	Preferred   []demand.WeightedNodeTerm
	Tolerations []corev1.Toleration
	Images      []string // normalised, one for each container
	readers     []PodReader
	read        []string // by reader
}

// PodReader reads a part of a pod for the rule with this name.
type PodReader struct {
	Name string
	Read func(*corev1.Pod) string
}

// Read returns what the rule with this name has read of the pod; nothing if it reads none.
func (d *Demand) Read(name string) string {
	for i := range d.readers {
		if d.readers[i].Name == name {
			return d.read[i]
		}
	}
	return ""
}

// Tolerates says whether the pod tolerates a taint.
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

// normalImage adds the tag that a name without one stands for, as node statuses show it.
func normalImage(name string) string {
	if strings.LastIndexByte(name, ':') <= strings.LastIndexByte(name, '/') {
		return name + ":latest"
	}
	return name
}
