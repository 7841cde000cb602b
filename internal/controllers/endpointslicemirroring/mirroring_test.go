package endpointslicemirroring_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/endpointslicemirroring"
	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/millracetest"
)

type cluster struct {
	*testing.T
	server *looptest.Server
}

// begin runs the loop with a Service without a selector, and its Endpoints.
func begin(t *testing.T, subsets ...corev1.EndpointSubset) *cluster {
	t.Helper()
	server := looptest.New(t, millracetest.API(t))
	clients := server.Clients()
	looptest.Start(t, clients, endpointslicemirroring.Entry)
	core := clients.Kube.CoreV1()
	if _, err := core.Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	endpoints := &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Labels: map[string]string{"team": "a"}, Annotations: map[string]string{
			"note": "kept", corev1.LastAppliedConfigAnnotation: "{}",
		}},
		Subsets: subsets,
	}
	if _, err := core.Endpoints("default").Create(t.Context(), endpoints, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	settle()
	return &cluster{t, server}
}

func settle() { time.Sleep(time.Minute); synctest.Wait() }

// said describes the slices, one line for each.
func (c *cluster) said() (lines []string) {
	for _, slice := range looptest.All[discoveryv1.EndpointSlice](c.server, "endpointslices") {
		line := string(slice.AddressType)
		for _, p := range slice.Ports {
			line += fmt.Sprintf(" %s:%d", *p.Name, *p.Port)
		}
		for _, e := range slice.Endpoints {
			line += fmt.Sprintf(" %s=%t", e.Addresses[0], *e.Conditions.Ready)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

func (c *cluster) expect(lines ...string) {
	c.Helper()
	if said := c.said(); !slices.Equal(said, lines) {
		c.Errorf("the slices say %q, expected %q", said, lines)
	}
}

func (c *cluster) edit(change func(*corev1.Endpoints)) {
	looptest.Edit(c.server, "endpoints", "default", "db", change)
	settle()
}

func ips(all ...string) (out []corev1.EndpointAddress) {
	for _, ip := range all {
		out = append(out, corev1.EndpointAddress{IP: ip})
	}
	return out
}

func port(name string, number int32) []corev1.EndpointPort {
	return []corev1.EndpointPort{{Name: name, Port: number, Protocol: corev1.ProtocolTCP}}
}

func TestEndpointsOfUsersAreMirroredByFamilyAndPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t,
			corev1.EndpointSubset{Addresses: ips("1.2.3.4", "2001:db8::1"), NotReadyAddresses: ips("1.2.3.5"), Ports: port("sql", 5432)},
			corev1.EndpointSubset{Addresses: ips("1.2.3.6"), Ports: port("sql", 5432)},
			corev1.EndpointSubset{Addresses: ips("1.2.3.4"), Ports: port("web", 80)})
		c.expect("IPv4 sql:5432 1.2.3.4=true 1.2.3.6=true 1.2.3.5=false", "IPv4 web:80 1.2.3.4=true", "IPv6 sql:5432 2001:db8::1=true")
		slice := looptest.All[discoveryv1.EndpointSlice](c.server, "endpointslices")[0]
		owner := metav1.GetControllerOf(slice)
		if owner == nil || owner.Kind != "Endpoints" || owner.Name != "db" || slice.Labels["team"] != "a" ||
			slice.Labels[discoveryv1.LabelServiceName] != "db" || len(slice.Annotations) != 1 || slice.Annotations["note"] != "kept" {
			t.Errorf("the slice is %+v", slice.ObjectMeta)
		}
	})
}

func TestAnAddressIsMirroredOnceForEachPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := append(port("a", 1), port("b", 2)...)
		c := begin(t,
			corev1.EndpointSubset{Addresses: ips("1.2.3.4", "1.2.3.4"), Ports: both},
			corev1.EndpointSubset{Addresses: ips("1.2.3.4", "1.2.3.9"), Ports: port("a", 1)},
			corev1.EndpointSubset{NotReadyAddresses: ips("1.2.3.9"), Ports: port("a", 1)})
		c.expect("IPv4 a:1 1.2.3.4=true 1.2.3.9=false", "IPv4 b:2 1.2.3.4=true")
		c.edit(func(e *corev1.Endpoints) {
			e.Subsets = []corev1.EndpointSubset{{Addresses: ips("1.2.3.4"), Ports: both}, {Addresses: ips("1.2.3.7")}}
		})
		c.expect("IPv4 1.2.3.7=true", "IPv4 a:1 b:2 1.2.3.4=true")
	})
}

func TestAMirrorIsUpdatedInPlaceAndThenLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, corev1.EndpointSubset{Addresses: ips("1.2.3.4"), Ports: port("sql", 5432)})
		before := looptest.All[discoveryv1.EndpointSlice](c.server, "endpointslices")[0]
		c.edit(func(e *corev1.Endpoints) {
			e.Subsets = []corev1.EndpointSubset{{Addresses: ips("1.2.3.9"), Ports: port("sql", 5433)}}
		})
		c.expect("IPv4 sql:5433 1.2.3.9=true")
		after := looptest.All[discoveryv1.EndpointSlice](c.server, "endpointslices")[0]
		if before.Name != after.Name {
			t.Error("another slice took the place of the first")
		}
		c.edit(func(e *corev1.Endpoints) { e.ResourceVersion = "" }) // an event without a change
		if now := looptest.All[discoveryv1.EndpointSlice](c.server, "endpointslices")[0]; now.ResourceVersion != after.ResourceVersion {
			t.Error("the slice was written although nothing changed")
		}
	})
}

func TestNothingIsMirroredThatUsersHaveOptedOut(t *testing.T) {
	for name, change := range map[string]func(c *cluster){
		"a label": func(c *cluster) {
			c.edit(func(e *corev1.Endpoints) { e.Labels = map[string]string{discoveryv1.LabelSkipMirror: "true"} })
		},
		"a lock": func(c *cluster) {
			c.edit(func(e *corev1.Endpoints) {
				e.Annotations = map[string]string{"control-plane.alpha.kubernetes.io/leader": "{}"}
			})
		},
		"no addresses": func(c *cluster) { c.edit(func(e *corev1.Endpoints) { e.Subsets = nil }) },
		"a selector": func(c *cluster) {
			looptest.Edit(c.server, "services", "default", "db", func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "db"} })
			settle()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := begin(t, corev1.EndpointSubset{Addresses: ips("1.2.3.4"), Ports: port("sql", 5432)})
				c.expect("IPv4 sql:5432 1.2.3.4=true")
				change(c)
				c.expect()
			})
		})
	}
}

func TestAtMostAThousandAddressesOfASubsetAreMirrored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var many []string
		for i := range 1005 {
			many = append(many, fmt.Sprintf("10.0.%d.%d", i/250, i%250))
		}
		c := begin(t, corev1.EndpointSubset{Addresses: ips(many...), Ports: port("sql", 5432)})
		slices := looptest.All[discoveryv1.EndpointSlice](c.server, "endpointslices")
		if len(slices) != 1 || len(slices[0].Endpoints) != 1000 {
			t.Errorf("%d slices, the first with %d endpoints", len(slices), len(slices[0].Endpoints))
		}
	})
}
