package core

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// Endpoints list the addresses behind a service, in the old form.
func Endpoints() *resource.Kind {
	return resource.Define(resource.Description[*corev1.Endpoints]{
		Group: "", Version: "v1", Kind: "Endpoints", Resource: "endpoints", Singular: "endpoints", Prefix: "services/endpoints",
		ValidateMetaTwice: true,
		Namespaced:        true, ShortNames: []string{"ep"},
		UnconditionalUpdate: true, CreateOnUpdate: true,
		Deprecated: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
		Default:    defaultEndpoints,
		Rules: resource.Rules[*corev1.Endpoints]{
			Validate:       checkEndpoints,
			ValidateUpdate: checkEndpointsUpdate,
			Warnings:       func(_ context.Context, e, old *corev1.Endpoints) []string { return endpointsWarnings(e, old) },
		},
		Columns: []table.Column{table.Name(), table.Text("Endpoints", corev1.Endpoints{}.SwaggerDoc()["subsets"]), table.Age()},
		Row: func(e *corev1.Endpoints) resource.Row {
			return resource.Row{Cells: []any{e.Name, endpointsText(e), table.Since(e.CreationTimestamp)}}
		},
	})
}

func defaultEndpoints(e *corev1.Endpoints) {
	for i := range e.Subsets {
		for j := range e.Subsets[i].Ports {
			if p := &e.Subsets[i].Ports[j]; p.Protocol == "" {
				p.Protocol = corev1.ProtocolTCP
			}
		}
	}
}

// endpointsShown is how many addresses a row of a table shows.
const endpointsShown = 3

func endpointsText(e *corev1.Endpoints) string {
	if len(e.Subsets) == 0 {
		return table.None
	}
	var shown []string
	count := 0
	show := func(text string) {
		if count++; count <= endpointsShown {
			shown = append(shown, text)
		}
	}
	for _, s := range e.Subsets {
		if len(s.Ports) == 0 {
			for _, a := range s.Addresses {
				show(a.IP)
			}
		}
		for _, p := range s.Ports {
			for _, a := range s.Addresses {
				show(net.JoinHostPort(a.IP, strconv.Itoa(int(p.Port))))
			}
		}
	}
	text := strings.Join(shown, ",")
	if count > endpointsShown {
		text = fmt.Sprintf("%s + %d more...", text, count-endpointsShown)
	}
	return text
}
