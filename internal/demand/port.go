package demand

import (
	corev1 "k8s.io/api/core/v1"
)

// Port is a host port.
type Port struct {
	IP       string // 0.0.0.0 means all addresses
	Protocol corev1.Protocol
	Number   int32
}

const anyAddress = "0.0.0.0"

// Conflicts reports whether the two ports cannot be used on the same node.
func (p Port) Conflicts(other Port) bool {
	return p.Number == other.Number && p.Protocol == other.Protocol &&
		(p.IP == other.IP || p.IP == anyAddress || other.IP == anyAddress)
}

// HostPorts returns the host ports of a pod's containers and sidecars.
func HostPorts(spec *corev1.PodSpec) []Port {
	var ports []Port
	for i := range spec.Containers {
		ports = appendPorts(ports, &spec.Containers[i])
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; Sidecar(c) {
			ports = appendPorts(ports, c)
		}
	}
	return ports
}

func appendPorts(ports []Port, c *corev1.Container) []Port {
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
	return ports
}

// PortSet counts the host ports that are used on a node. The zero value is empty.
type PortSet map[Port]int

// Add counts one more use of each port.
func (s *PortSet) Add(ports []Port) {
	for _, p := range ports {
		if *s == nil {
			*s = make(PortSet)
		}
		(*s)[p]++
	}
}

// Remove counts one use less of each port.
func (s PortSet) Remove(ports []Port) {
	for _, p := range ports {
		if s[p]--; s[p] == 0 {
			delete(s, p)
		}
	}
}

// Conflicts reports whether one of the ports is used.
func (s PortSet) Conflicts(ports []Port) bool {
	for _, p := range ports {
		for taken := range s {
			if p.Conflicts(taken) {
				return true
			}
		}
	}
	return false
}
