package networking

import (
	"context"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// Ingresses route HTTP requests from outside of the cluster to services.
func Ingresses() *resource.Kind {
	spec := networkingv1.IngressSpec{}.SwaggerDoc()
	return resource.Define(resource.Description[*networkingv1.Ingress]{
		Group: networkingv1.GroupName, Version: "v1", Kind: "Ingress", Resource: "ingresses", Prefix: "ingress",
		Namespaced: true, ShortNames: []string{"ing"}, UnconditionalUpdate: true,
		Rules: resource.Rules[*networkingv1.Ingress]{
			Validate: func(_ context.Context, i *networkingv1.Ingress) field.ErrorList { return checkIngress(i) },
			ValidateUpdate: func(_ context.Context, i, old *networkingv1.Ingress) field.ErrorList {
				return checkIngressUpdate(i, old)
			},
			Warnings: func(_ context.Context, i, old *networkingv1.Ingress) []string { return ingressWarnings(i, old) },
		},
		Status: &resource.Rules[*networkingv1.Ingress]{
			ValidateUpdate: func(_ context.Context, i, old *networkingv1.Ingress) field.ErrorList {
				return checkIngressStatus(i, old)
			},
		},
		Columns: []table.Column{
			table.Name(),
			table.Text("Class", spec["ingressClassName"]),
			table.Text("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
			table.Text("Address", "Address is a list containing ingress points for the load-balancer"),
			table.Text("Ports", "Ports of TLS configurations that open"),
			table.Age(),
		},
		Row: func(i *networkingv1.Ingress) resource.Row {
			class := table.None
			if i.Spec.IngressClassName != nil {
				class = *i.Spec.IngressClassName
			}
			ports := "80"
			if len(i.Spec.TLS) > 0 {
				ports = "80, 443"
			}
			return resource.Row{Cells: []any{i.Name, class, hostsText(i.Spec.Rules), addressText(&i.Status), ports, table.Since(i.CreationTimestamp)}}
		},
	})
}

// hostsShown is how many hosts a row of a table shows.
const hostsShown = 3

func hostsText(rules []networkingv1.IngressRule) string {
	var hosts []string
	for _, r := range rules {
		if r.Host != "" {
			hosts = append(hosts, r.Host)
		}
	}
	switch n := len(hosts); {
	case n == 0:
		return "*"
	case n > hostsShown:
		return moreText(hosts, hostsShown)
	}
	return strings.Join(hosts, ",")
}

func addressText(s *networkingv1.IngressStatus) string {
	var out []string
	for _, in := range s.LoadBalancer.Ingress {
		switch {
		case in.IP != "":
			out = append(out, in.IP)
		case in.Hostname != "":
			out = append(out, in.Hostname)
		}
	}
	return strings.Join(out, ",")
}
