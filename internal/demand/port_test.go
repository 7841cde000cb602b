package demand_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
)

func TestHostPortsAreThoseOfContainersAndSidecars(t *testing.T) {
	port := func(ip string, number int32) corev1.Container {
		return corev1.Container{Ports: []corev1.ContainerPort{{ContainerPort: 1, HostPort: number, HostIP: ip}}}
	}
	sidecar := port("192.0.2.1", 3)
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	spec := corev1.PodSpec{
		Containers:     []corev1.Container{port("", 1), {Ports: []corev1.ContainerPort{{ContainerPort: 1}}}},
		InitContainers: []corev1.Container{port("", 2), sidecar},
	}
	want := []demand.Port{{IP: "0.0.0.0", Protocol: "TCP", Number: 1}, {IP: "192.0.2.1", Protocol: "TCP", Number: 3}}
	if got := demand.HostPorts(&spec); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestPortsConflictWhereTheyShareAnAddress(t *testing.T) {
	on := func(ip string) demand.Port { return demand.Port{IP: ip, Protocol: "TCP", Number: 80} }
	for _, c := range []struct {
		a, b     demand.Port
		conflict bool
	}{
		{on("192.0.2.1"), on("192.0.2.1"), true},
		{on("192.0.2.1"), on("192.0.2.2"), false},
		{on("192.0.2.1"), on("0.0.0.0"), true},
		{on("0.0.0.0"), on("192.0.2.1"), true},
		{on("0.0.0.0"), demand.Port{IP: "0.0.0.0", Protocol: "UDP", Number: 80}, false},
		{on("0.0.0.0"), demand.Port{IP: "0.0.0.0", Protocol: "TCP", Number: 81}, false},
	} {
		var taken demand.PortSet
		taken.Add([]demand.Port{c.a})
		if taken.Conflicts([]demand.Port{c.b}) != c.conflict {
			t.Errorf("%v beside %v: conflict should be %v", c.b, c.a, c.conflict)
		}
		taken.Remove([]demand.Port{c.a})
		if taken.Conflicts([]demand.Port{c.b}) || len(taken) > 0 {
			t.Errorf("%v is still taken", taken)
		}
	}
}
