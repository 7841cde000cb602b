package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

func (x *examiner) ports(p *place, ports []corev1.ContainerPort) {
	if len(ports) == 0 {
		return
	}
	var names seen[string]
	list := p.child("ports")
	for i := range ports {
		list.forget()
		port := &ports[i]
		item := list.item(i)
		if port.Name != "" {
			name := item.child("name")
			if messages := validation.IsValidPortName(port.Name); messages != nil {
				x.invalidAll(&name, port.Name, messages)
			} else if !names.add(port.Name) {
				x.duplicate(&name, port.Name)
			}
		}
		number := item.child("containerPort")
		if port.ContainerPort == 0 {
			x.required(&number, "")
		} else {
			x.portNumber(&number, port.ContainerPort)
		}
		if port.HostPort != 0 {
			host := item.child("hostPort")
			x.portNumber(&host, port.HostPort)
		}
		switch port.Protocol {
		case corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
		case "":
			x.requireText(&item, "protocol", "")
		default:
			protocol := item.child("protocol")
			oneOf(&x.findings, &protocol, port.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
		}
	}
}

func (x *examiner) portNumber(p *place, n int32) {
	if n < 1 || n > 65535 {
		x.invalidAll(p, n, validation.IsValidPortNum(int(n)))
	}
}

func (x *examiner) portNumberOrName(p *place, port intstr.IntOrString) {
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
func (x *examiner) hostPorts(p *place, containers []corev1.Container) {
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
			c := item.child("hostPort")
			x.duplicate(&c, fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort))
		}
	}
}

// hostNetwork requires containers on the host network to have equal host and container ports. Templates may omit the host ports.
func (x *examiner) hostNetwork(p *place) {
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
				c := item.child("hostPort")
				x.invalid(&c, port.HostPort, "must match `containerPort` when `hostNetwork` is true")
			}
		}
	}
}
