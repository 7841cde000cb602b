package networking

import (
	"context"
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// IngressClasses name the controllers of ingresses.
func IngressClasses() *resource.Kind {
	spec := networkingv1.IngressClassSpec{}.SwaggerDoc()
	return resource.Define(resource.Description[*networkingv1.IngressClass]{
		Group: networkingv1.GroupName, Version: "v1", Kind: "IngressClass", Resource: "ingressclasses",
		UnconditionalUpdate: true,
		Default:             defaultIngressClass,
		Rules: resource.Rules[*networkingv1.IngressClass]{
			Validate: func(_ context.Context, c *networkingv1.IngressClass) field.ErrorList { return checkIngressClass(c) },
			ValidateUpdate: func(_ context.Context, c, old *networkingv1.IngressClass) field.ErrorList {
				return checkIngressClassUpdate(c, old)
			},
		},
		Columns: []table.Column{
			table.Name(),
			table.Text("Controller", "Controller that is responsible for handling this class"),
			table.Text("Parameters", spec["parameters"]),
			table.Age(),
		},
		Row: func(c *networkingv1.IngressClass) resource.Row {
			parameters := table.None
			if p := c.Spec.Parameters; p != nil {
				parameters = p.Kind
				if p.APIGroup != nil {
					parameters += "." + *p.APIGroup
				}
				parameters += "/" + p.Name
			}
			return resource.Row{Cells: []any{c.Name, c.Spec.Controller, parameters, table.Since(c.CreationTimestamp)}}
		},
	})
}

func defaultIngressClass(c *networkingv1.IngressClass) {
	if p := c.Spec.Parameters; p != nil && p.Scope == nil {
		p.Scope = new(networkingv1.IngressClassParametersReferenceScopeCluster)
	}
}

func moreText(all []string, room int) string {
	return fmt.Sprintf("%s + %d more...", strings.Join(all[:room], ","), len(all)-room)
}
