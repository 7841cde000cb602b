package networking

import (
	"context"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// ServiceCIDRs are the ranges from which services get their addresses.
func ServiceCIDRs() *resource.Kind {
	return resource.Define(resource.Description[*networkingv1.ServiceCIDR]{
		Group: networkingv1.GroupName, Version: "v1", Kind: "ServiceCIDR", Resource: "servicecidrs",
		NoGeneration: true, UnconditionalUpdate: true,
		Name: validation.NameIsDNSSubdomain,
		Rules: resource.Rules[*networkingv1.ServiceCIDR]{
			Validate: func(_ context.Context, c *networkingv1.ServiceCIDR) field.ErrorList { return checkServiceCIDR(c) },
			ValidateUpdate: func(_ context.Context, c, old *networkingv1.ServiceCIDR) field.ErrorList {
				return checkServiceCIDRUpdate(c, old)
			},
		},
		Status:  &resource.Rules[*networkingv1.ServiceCIDR]{},
		Columns: []table.Column{table.Name(), table.Text("CIDRs", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"]), table.Age()},
		Row: func(c *networkingv1.ServiceCIDR) resource.Row {
			return resource.Row{Cells: []any{c.Name, strings.Join(c.Spec.CIDRs, ","), table.Since(c.CreationTimestamp)}}
		},
	})
}
