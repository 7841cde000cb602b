package endpointslice

import (
	"cmp"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/controllers/internal/service"
	"github.com/millrace/millrace/internal/controllers/internal/slice"
	"github.com/millrace/millrace/internal/controllers/podview"
)

const (
	managedBy    = "endpointslice-controller.k8s.io"
	maxEndpoints = 100
)

// groupKey is what all endpoints of one slice share.
type groupKey struct {
	family discoveryv1.AddressType
	ports  string // the ports as canonical text
}

// group has the endpoints with one key, by the UID of their pod.
type group struct {
	groupKey
	list      []discoveryv1.EndpointPort
	endpoints map[types.UID]discoveryv1.Endpoint
}

// desired returns the endpoints that a Service should have.
func desired(s *corev1.Service, pods []*podview.Pod, zone func(node string) string) map[groupKey]*group {
	out := map[groupKey]*group{}
	for _, pod := range pods {
		if pod.Finished() {
			continue
		}
		for _, family := range service.Families(s) {
			address := service.Address(pod, family)
			if address == "" {
				continue
			}
			ports := portsOf(service.Ports(s, pod))
			key := groupKey{discoveryv1.AddressType(family), slice.PortsText(ports)}
			if out[key] == nil {
				out[key] = &group{groupKey: key, list: ports, endpoints: map[types.UID]discoveryv1.Endpoint{}}
			}
			out[key].endpoints[pod.UID] = endpoint(s, pod, address, zone)
		}
	}
	return out
}

func endpoint(s *corev1.Service, pod *podview.Pod, address string, zone func(string) string) discoveryv1.Endpoint {
	serving := pod.Ready
	terminating := pod.DeletionTimestamp != nil
	ready := s.Spec.PublishNotReadyAddresses || serving && !terminating
	e := discoveryv1.Endpoint{
		Addresses:  []string{address},
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
		TargetRef:  service.TargetRef(pod),
	}
	if pod.Node != "" {
		e.NodeName = &pod.Node
		if z := zone(pod.Node); z != "" {
			e.Zone = &z
		}
	}
	if hostname := service.Hostname(s, pod); hostname != "" {
		e.Hostname = &hostname
	}
	e.Hints = hints(s, &e)
	return e
}

// hints returns the hints for a Service with trafficDistribution. An endpoint that is not ready or whose zone is not
// known gets none.
func hints(s *corev1.Service, e *discoveryv1.Endpoint) *discoveryv1.EndpointHints {
	if s.Spec.TrafficDistribution == nil || topologyAware(s) || !*e.Conditions.Ready {
		return nil
	}
	var h discoveryv1.EndpointHints
	if *s.Spec.TrafficDistribution == corev1.ServiceTrafficDistributionPreferSameNode && e.NodeName != nil {
		h.ForNodes = []discoveryv1.ForNode{{Name: *e.NodeName}}
	}
	if e.Zone != nil {
		h.ForZones = []discoveryv1.ForZone{{Name: *e.Zone}}
	}
	if h.ForNodes == nil && h.ForZones == nil {
		return nil
	}
	return &h
}

// topologyAware reports whether the Service has the annotation for hints by the zones' CPU. The annotation has
// precedence over trafficDistribution, and such hints are not supported here.
func topologyAware(s *corev1.Service) bool {
	mode, ok := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	if !ok {
		mode = s.Annotations[corev1.AnnotationTopologyMode]
	}
	return mode == "Auto" || mode == "auto"
}

func portsOf(ports []service.Port) []discoveryv1.EndpointPort {
	out := []discoveryv1.EndpointPort{}
	for _, p := range ports {
		out = append(out, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Number, Protocol: &p.Protocol, AppProtocol: p.AppProtocol})
	}
	return out
}

// labelsOf returns the labels of the Service's slices: its own, and those that identify their owner.
func labelsOf(s *corev1.Service) map[string]string {
	out := maps.Clone(s.Labels)
	if out == nil {
		out = map[string]string{}
	}
	delete(out, service.HeadlessLabel)
	if service.Headless(s) {
		out[service.HeadlessLabel] = ""
	}
	out[discoveryv1.LabelServiceName] = s.Name
	out[discoveryv1.LabelManagedBy] = managedBy
	return out
}

func newSlice(s *corev1.Service, g *group, endpoints []discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: s.Name + "-", Namespace: s.Namespace, Labels: labelsOf(s), OwnerReferences: service.Owner(s),
		},
		AddressType: g.family,
		Ports:       g.list,
		Endpoints:   endpoints,
	}
}

func byUID(a, b discoveryv1.Endpoint) int {
	return cmp.Compare(a.TargetRef.UID, b.TargetRef.UID)
}
