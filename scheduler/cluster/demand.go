package cluster

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Demand is what a pod asks of a node by itself, whatever runs elsewhere.
type Demand struct {
	Requests    Resources
	Scored      Resources // cpu and memory with defaults for containers that name none
	Ports       []Port
	Match       NodeMatch
	Preferred   []WeightedNodeTerm
	Tolerations []corev1.Toleration
	Images      []string // normalised, one for each container
	marks       []string
}

// Mark returns what the interner's mark with this index made of the pod.
func (d *Demand) Mark(index int) string { return d.marks[index] }

// Tolerates says whether the pod bears a taint.
func (d *Demand) Tolerates(taint *corev1.Taint) bool {
	for i := range d.Tolerations {
		if tolerates(&d.Tolerations[i], taint) {
			return true
		}
	}
	return false
}

func tolerates(t *corev1.Toleration, taint *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", corev1.TolerationOpEqual:
		return t.Value == taint.Value
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpLt, corev1.TolerationOpGt:
		than, err1 := strconv.ParseInt(t.Value, 10, 64)
		value, err2 := strconv.ParseInt(taint.Value, 10, 64)
		return err1 == nil && err2 == nil && value != than && (value < than) == (t.Operator == corev1.TolerationOpLt)
	}
	return false
}

// Port is a port of the host.
type Port struct {
	IP       string // 0.0.0.0: all addresses
	Protocol corev1.Protocol
	Number   int32
}

const anyAddress = "0.0.0.0"

// Conflicts says whether both cannot be had on one node.
func (p Port) Conflicts(other Port) bool {
	return p.Number == other.Number && p.Protocol == other.Protocol &&
		(p.IP == other.IP || p.IP == anyAddress || other.IP == anyAddress)
}

// portsOf lists the host ports of containers and sidecars.
func portsOf(spec *corev1.PodSpec) []Port {
	var ports []Port
	collect := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort <= 0 {
				continue
			}
			port := Port{IP: p.HostIP, Protocol: p.Protocol, Number: p.HostPort}
			if port.IP == "" {
				port.IP = anyAddress
			}
			if port.Protocol == "" {
				port.Protocol = corev1.ProtocolTCP
			}
			ports = append(ports, port)
		}
	}
	for i := range spec.Containers {
		collect(&spec.Containers[i])
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			collect(c)
		}
	}
	return ports
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
