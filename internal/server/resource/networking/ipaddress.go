package networking

import (
	"context"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// IPAddresses say to which service an address is allocated.
func IPAddresses() *resource.Kind {
	return resource.Define(resource.Description[*networkingv1.IPAddress]{
		Group: networkingv1.GroupName, Version: "v1", Kind: "IPAddress", ListKind: "IPAddressList", Resource: "ipaddresses",
		ShortNames: []string{"ip"}, NoGeneration: true, UnconditionalUpdate: true,
		Name: ipName,
		Rules: resource.Rules[*networkingv1.IPAddress]{
			Validate: func(_ context.Context, a *networkingv1.IPAddress) field.ErrorList { return checkIPAddress(a) },
			ValidateUpdate: func(_ context.Context, a, old *networkingv1.IPAddress) field.ErrorList {
				return checkIPAddressUpdate(a, old)
			},
		},
		Columns: []table.Column{table.Name(), table.Text("ParentRef", networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"])},
		Row: func(a *networkingv1.IPAddress) resource.Row {
			// kube-apiserver's row has three cells, but only two columns.
			return resource.Row{Cells: []any{a.Name, parentText(a.Spec.ParentRef), table.Since(a.CreationTimestamp)}}
		},
	})
}

func parentText(r *networkingv1.ParentReference) string {
	if r == nil {
		return ""
	}
	var parts []string
	if r.Resource != "" {
		name := r.Resource
		if r.Group != "" {
			name += "." + r.Group
		}
		parts = append(parts, name)
	}
	if r.Namespace != "" {
		parts = append(parts, r.Namespace)
	}
	return strings.Join(append(parts, r.Name), "/")
}
