package core

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// Services give a set of pods one name and one address. The allocator, which allocates addresses and ports, calls
// CheckClusterIPs first.
func Services() *resource.Kind {
	spec := corev1.ServiceSpec{}.SwaggerDoc()
	return resource.Define(resource.Description[*corev1.Service]{
		Group: "", Version: "v1", Kind: "Service", Resource: "services", Prefix: "services/specs",
		Namespaced: true, ShortNames: []string{"svc"}, Categories: []string{"all"},
		NoGeneration: true, UnconditionalUpdate: true, CreateOnUpdate: true, ReturnDeleted: true,
		Name:    validation.NameIsDNSLabel,
		Default: defaultService,
		Rules: resource.Rules[*corev1.Service]{
			PrepareCreate:  func(_ context.Context, s *corev1.Service) { normalizeClusterIPs(s, nil) },
			PrepareUpdate:  func(_ context.Context, s, old *corev1.Service) { prepareServiceUpdate(s, old) },
			Validate:       func(_ context.Context, s *corev1.Service) field.ErrorList { return checkService(s, nil) },
			ValidateUpdate: func(_ context.Context, s, old *corev1.Service) field.ErrorList { return checkServiceUpdate(s, old) },
			Warnings:       func(_ context.Context, s, old *corev1.Service) []string { return serviceWarnings(s, old) },
		},
		Status: &resource.Rules[*corev1.Service]{
			ValidateUpdate: func(_ context.Context, s, old *corev1.Service) field.ErrorList { return checkServiceStatus(s, old) },
		},
		Actions: []resource.Action{{
			Name:  "proxy",
			Body:  schema.GroupVersionKind{Version: "v1", Kind: "ServiceProxyOptions"},
			Verbs: []string{"create", "delete", "get", "patch", "update"},
		}},
		Fields: []resource.Field{{Label: "spec.clusterIP"}, {Label: "spec.type"}},
		Columns: []table.Column{
			table.Name(),
			table.Text("Type", spec["type"]),
			table.Text("Cluster-IP", spec["clusterIP"]),
			table.Text("External-IP", spec["externalIPs"]),
			table.Text("Port(s)", spec["ports"]),
			table.Age(),
			table.Wide(table.Text("Selector", spec["selector"])),
		},
		Row: serviceRow,
	})
}

// affinitySeconds is the default session affinity: three hours.
const affinitySeconds = 10800

func defaultService(s *corev1.Service) {
	spec := &s.Spec
	fill(&spec.Type, corev1.ServiceTypeClusterIP)
	defaultAffinity(spec)
	for i := range spec.Ports {
		p := &spec.Ports[i]
		fill(&p.Protocol, corev1.ProtocolTCP)
		if p.TargetPort == (intstr.IntOrString{}) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	if reachableFromOutside(spec) {
		fill(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if needsClusterIP(spec.Type) {
		fillPointer(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if spec.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	fillPointer(&spec.AllocateLoadBalancerNodePorts, true)
	for i := range s.Status.LoadBalancer.Ingress {
		if in := &s.Status.LoadBalancer.Ingress[i]; in.IP != "" {
			fillPointer(&in.IPMode, corev1.LoadBalancerIPModeVIP)
		}
	}
}

func defaultAffinity(spec *corev1.ServiceSpec) {
	fill(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		if c := spec.SessionAffinityConfig; c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
				ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(affinitySeconds))},
			}
		}
	}
}

func needsClusterIP(t corev1.ServiceType) bool {
	return t == corev1.ServiceTypeClusterIP || needsNodePort(t)
}

func needsNodePort(t corev1.ServiceType) bool {
	return t == corev1.ServiceTypeNodePort || t == corev1.ServiceTypeLoadBalancer
}

func reachableFromOutside(spec *corev1.ServiceSpec) bool {
	return needsNodePort(spec.Type) || spec.Type == corev1.ServiceTypeClusterIP && len(spec.ExternalIPs) > 0
}

// needsHealthCheckPort reports whether a service needs a health check node port.
func needsHealthCheckPort(spec *corev1.ServiceSpec) bool {
	return spec.Type == corev1.ServiceTypeLoadBalancer && spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

func serviceRow(s *corev1.Service) resource.Row {
	address := table.None
	if len(s.Spec.ClusterIPs) > 0 {
		address = s.Spec.ClusterIPs[0]
	}
	return resource.Row{Cells: []any{
		s.Name, string(s.Spec.Type), address, externalText(s), portsText(s.Spec.Ports), table.Since(s.CreationTimestamp),
		table.Labels(s.Spec.Selector),
	}}
}

func externalText(s *corev1.Service) string {
	switch s.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
		all := append(balancerAddresses(s), s.Spec.ExternalIPs...)
		if len(all) == 0 {
			return "<pending>"
		}
		return strings.Join(all, ",")
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		if len(s.Spec.ExternalIPs) > 0 {
			return strings.Join(s.Spec.ExternalIPs, ",")
		}
		return table.None
	}
	return table.Unknown
}

func balancerAddresses(s *corev1.Service) []string {
	var out []string
	seen := map[string]bool{}
	for _, in := range s.Status.LoadBalancer.Ingress {
		a := in.IP
		if a == "" {
			a = in.Hostname
		}
		if a != "" && !seen[a] {
			out, seen[a] = append(out, a), true
		}
	}
	return out
}

func portsText(ports []corev1.ServicePort) string {
	if len(ports) == 0 {
		return table.None
	}
	out := make([]string, len(ports))
	for i, p := range ports {
		if p.NodePort > 0 {
			out[i] = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		} else {
			out[i] = fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		}
	}
	return strings.Join(out, ",")
}
