//go:build linux

package services

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/watchlist"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

// service is the part of a Service that the tables need.
type service struct {
	key                       informer.Key
	clusterIPs, externals     []netip.Addr
	balancers                 []netip.Addr // addresses of its load balancer, if packets reach the node with them
	sources                   []netip.Prefix
	ports                     []servicePort
	affinityTimeout           uint32 // seconds; 0: no affinity
	localInside, localOutside bool   // the traffic policy is Local
	healthPort                uint16
}

type servicePort struct {
	name             string
	protocol         uint8
	number, nodePort uint16
}

// slice is the part of an EndpointSlice that the tables need.
type slice struct {
	service   informer.Key
	endpoints []endpoint
	ports     []slicePort
	triggered int64 // when the pods changed that changed the slice, in nanoseconds of Unix time; 0: not known
}

type slicePort struct {
	name     string
	protocol uint8
	number   uint16
}

type endpoint struct {
	address                     netip.Addr
	node                        string
	ready, serving, terminating bool
	zones, nodes                []string // hints
}

// node is the part of the proxy's Node that the tables need.
type node struct {
	name, zone string
	addresses  []netip.Addr
	leaving    bool // it is being deleted, or the cluster autoscaler will remove it
}

var byService = informer.NewIndex(func(s *slice) []string { return []string{s.service.String()} })

// removalTaint is the taint of a node that the cluster autoscaler will remove.
const removalTaint = "ToBeDeletedByClusterAutoscaler"

// proxyNameLabel means that another proxy serves the service.
const proxyNameLabel = "service.kubernetes.io/service-proxy-name"

type view struct {
	services *informer.Shared[*service]
	slices   *informer.Shared[*slice]
	nodes    *informer.Shared[*node]
}

func newView(c *loop.Clients, name string) view {
	paged := watchlist.DoesClientNotSupportWatchListSemantics(c.Kube)
	return view{
		services: informer.ShareProjection(c.Informers, informer.For(c.Kube.CoreV1().Services("")), serviceOf, informer.Options[*service]{
			Name: "proxy services", Logger: c.Log, DisableStreaming: paged, LabelSelector: "!" + proxyNameLabel,
		}),
		slices: informer.ShareProjection(c.Informers, informer.For(c.Kube.DiscoveryV1().EndpointSlices("")), sliceOf, informer.Options[*slice]{
			Name: "proxy endpoints", Logger: c.Log, DisableStreaming: paged, LabelSelector: "!" + proxyNameLabel + ",!" + corev1.IsHeadlessService,
			Indexes: []*informer.Index[*slice]{byService},
		}),
		nodes: informer.ShareProjection(c.Informers, informer.For(c.Kube.CoreV1().Nodes()), nodeOf, informer.Options[*node]{
			Name: "proxy node", Logger: c.Log, DisableStreaming: paged, FieldSelector: metav1.ObjectNameField + "=" + name,
		}),
	}
}

func serviceOf(s *corev1.Service) *service {
	out := &service{key: informer.Key{Namespace: s.Namespace, Name: s.Name}}
	if s.Spec.Type == corev1.ServiceTypeExternalName || s.Spec.ClusterIP == corev1.ClusterIPNone {
		return out
	}
	out.clusterIPs, out.externals = addresses(s.Spec.ClusterIPs), addresses(s.Spec.ExternalIPs)
	for _, p := range s.Spec.Ports {
		out.ports = append(out.ports, servicePort{p.Name, protocolNumber(p.Protocol), uint16(p.Port), uint16(p.NodePort)})
	}
	if s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		out.affinityTimeout = uint32(corev1.DefaultClientIPServiceAffinitySeconds)
		if c := s.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
			out.affinityTimeout = uint32(*c.ClientIP.TimeoutSeconds)
		}
	}
	out.localInside = s.Spec.InternalTrafficPolicy != nil && *s.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal
	out.localOutside = s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		out.balancers, out.sources = balancers(s), prefixes(s.Spec.LoadBalancerSourceRanges)
		if out.localOutside {
			out.healthPort = uint16(s.Spec.HealthCheckNodePort)
		}
	}
	return out
}

// balancers returns the addresses in the status with which packets reach the node.
func balancers(s *corev1.Service) []netip.Addr {
	var all []string
	for _, i := range s.Status.LoadBalancer.Ingress {
		if i.IPMode == nil || *i.IPMode == corev1.LoadBalancerIPModeVIP {
			all = append(all, i.IP)
		}
	}
	return addresses(all)
}

func sliceOf(s *discoveryv1.EndpointSlice) *slice {
	out := &slice{service: informer.Key{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}}
	if s.AddressType == discoveryv1.AddressTypeFQDN {
		return out
	}
	if at, err := time.Parse(time.RFC3339Nano, s.Annotations[corev1.EndpointsLastChangeTriggerTime]); err == nil {
		out.triggered = at.UnixNano()
	}
	for _, p := range s.Ports {
		if p.Port != nil {
			out.ports = append(out.ports, slicePort{value(p.Name), protocolNumber(value(p.Protocol)), uint16(*p.Port)})
		}
	}
	for _, e := range s.Endpoints {
		if len(e.Addresses) == 0 {
			continue
		}
		if a, err := netip.ParseAddr(e.Addresses[0]); err == nil { // Kubernetes defines only the first address
			out.endpoints = append(out.endpoints, endpointOf(e, a))
		}
	}
	return out
}

func endpointOf(e discoveryv1.Endpoint, a netip.Addr) endpoint {
	out := endpoint{address: a, node: value(e.NodeName), terminating: value(e.Conditions.Terminating)}
	out.ready = e.Conditions.Ready == nil || *e.Conditions.Ready
	out.serving = out.ready
	if e.Conditions.Serving != nil {
		out.serving = *e.Conditions.Serving
	}
	if e.Hints != nil {
		for _, z := range e.Hints.ForZones {
			out.zones = append(out.zones, z.Name)
		}
		for _, n := range e.Hints.ForNodes {
			out.nodes = append(out.nodes, n.Name)
		}
	}
	return out
}

func nodeOf(n *corev1.Node) *node {
	out := &node{name: n.Name, zone: n.Labels[corev1.LabelTopologyZone]}
	out.leaving = n.DeletionTimestamp != nil || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == removalTaint })
	for _, a := range n.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP && !slices.Contains(out.addresses, ip) {
			out.addresses = append(out.addresses, ip)
		}
	}
	return out
}

func addresses(texts []string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, a)
		}
	}
	return out
}

func prefixes(texts []string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

func value[T any](p *T) T {
	var none T
	if p == nil {
		return none
	}
	return *p
}

// protocolNumber returns the IP protocol number.
func protocolNumber(p corev1.Protocol) uint8 {
	switch cmp.Or(p, corev1.ProtocolTCP) {
	case corev1.ProtocolUDP:
		return 17
	case corev1.ProtocolSCTP:
		return 132
	}
	return 6
}
