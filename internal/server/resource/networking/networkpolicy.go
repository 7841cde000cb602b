package networking

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// NetworkPolicies say which traffic pods accept and send.
func NetworkPolicies() *resource.Kind {
	return resource.Define(resource.Description[*networkingv1.NetworkPolicy]{
		Group: networkingv1.GroupName, Version: "v1", Kind: "NetworkPolicy", Resource: "networkpolicies",
		Namespaced: true, ShortNames: []string{"netpol"}, UnconditionalUpdate: true,
		Default: defaultPolicy,
		Rules: resource.Rules[*networkingv1.NetworkPolicy]{
			Validate: func(_ context.Context, p *networkingv1.NetworkPolicy) field.ErrorList { return checkPolicy(p, nil) },
			ValidateUpdate: func(_ context.Context, p, old *networkingv1.NetworkPolicy) field.ErrorList {
				return checkPolicy(p, old)
			},
			Warnings: func(_ context.Context, p, _ *networkingv1.NetworkPolicy) []string { return policyWarnings(p) },
		},
		Columns: []table.Column{table.Name(), table.Text("Pod-Selector", networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"]), table.Age()},
		Row: func(p *networkingv1.NetworkPolicy) resource.Row {
			return resource.Row{Cells: []any{p.Name, metav1.FormatLabelSelector(&p.Spec.PodSelector), table.Since(p.CreationTimestamp)}}
		},
	})
}

func defaultPolicy(p *networkingv1.NetworkPolicy) {
	for i := range p.Spec.Ingress {
		defaultPorts(p.Spec.Ingress[i].Ports)
	}
	for i := range p.Spec.Egress {
		defaultPorts(p.Spec.Egress[i].Ports)
	}
	if len(p.Spec.PolicyTypes) == 0 {
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(p.Spec.Egress) > 0 {
			p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
}

func defaultPorts(ports []networkingv1.NetworkPolicyPort) {
	for i := range ports {
		if ports[i].Protocol == nil {
			ports[i].Protocol = new(corev1.ProtocolTCP)
		}
	}
}
