package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

func (x *examiner) ports(p fieldPath, ports []corev1.ContainerPort) {
	if len(ports) == 0 {
		return
	}
	var names seen[string]
	list := p.child("ports")
	for i := range ports {
		port := &ports[i]
		item := list.item(i)
		if port.Name != "" {
			name := item.child("name")
			if messages := validation.IsValidPortName(port.Name); messages != nil {
				x.invalidAll(name, port.Name, messages)
			} else if !names.add(port.Name) {
				x.duplicate(name, port.Name)
			}
		}
		number := item.child("containerPort")
		if port.ContainerPort == 0 {
			x.required(number, "")
		} else {
			x.portNumber(number, port.ContainerPort)
		}
		if port.HostPort != 0 {
			x.portNumber(item.child("hostPort"), port.HostPort)
		}
		switch port.Protocol {
		case corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
		case "":
			x.requireText(item, "protocol", "")
		default:
			oneOf(&x.findings, item.child("protocol"), port.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
		}
	}
}

func (x *examiner) portNumber(p fieldPath, n int32) {
	if n < 1 || n > 65535 {
		x.invalidAll(p, n, validation.IsValidPortNum(int(n)))
	}
}

func (x *examiner) portNumberOrName(p fieldPath, port intstr.IntOrString) {
	if port.Type == intstr.String {
		x.invalidAll(p, port.StrVal, validation.IsValidPortName(port.StrVal))
		return
	}
	x.portNumber(p, port.IntVal)
}

type hostPort struct {
	protocol corev1.Protocol
	ip       string
	port     int32
}

// hostPorts refuses duplicate host ports.
func (x *examiner) hostPorts(p fieldPath, containers []corev1.Container) {
	var taken seen[hostPort]
	for i := range containers {
		for j := range containers[i].Ports {
			port := &containers[i].Ports[j]
			if port.HostPort == 0 || taken.add(hostPort{port.Protocol, port.HostIP, port.HostPort}) {
				continue
			}
			container := p.item(i)
			ports := container.child("ports")
			item := ports.item(j)
			x.duplicate(item.child("hostPort"), fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort))
		}
	}
}

// hostNetwork requires containers on the host network to have equal host and container ports. Templates may omit the
// host ports.
func (x *examiner) hostNetwork(p fieldPath) {
	if !x.spec.HostNetwork {
		return
	}
	for _, l := range [...]struct {
		name       string
		containers []corev1.Container
	}{{"containers", x.spec.Containers}, {"initContainers", x.spec.InitContainers}} {
		list := p.child(l.name)
		for i := range l.containers {
			for j := range l.containers[i].Ports {
				port := &l.containers[i].Ports[j]
				if port.HostPort == port.ContainerPort || port.HostPort == 0 && !x.pod {
					continue
				}
				container := list.item(i)
				ports := container.child("ports")
				item := ports.item(j)
				x.invalid(item.child("hostPort"), port.HostPort, "must match `containerPort` when `hostNetwork` is true")
			}
		}
	}
}
