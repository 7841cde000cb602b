// Package discovery describes the kinds of the group discovery.k8s.io.
package discovery

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind { return []*resource.Kind{EndpointSlices()} }

// EndpointSlices list some of the addresses behind a service.
func EndpointSlices() *resource.Kind {
	doc := discoveryv1.EndpointSlice{}.SwaggerDoc()
	return resource.Define(resource.Description[*discoveryv1.EndpointSlice]{
		Group: discoveryv1.GroupName, Version: "v1", Kind: "EndpointSlice", Resource: "endpointslices",
		Namespaced: true, UnconditionalUpdate: true,
		Default: defaultSlice,
		Rules: resource.Rules[*discoveryv1.EndpointSlice]{
			PrepareCreate:  func(_ context.Context, s *discoveryv1.EndpointSlice) { prepareCreate(s) },
			PrepareUpdate:  func(_ context.Context, s, old *discoveryv1.EndpointSlice) { prepareUpdate(s, old) },
			Validate:       func(_ context.Context, s *discoveryv1.EndpointSlice) field.ErrorList { return checkSlice(s, nil) },
			ValidateUpdate: func(_ context.Context, s, old *discoveryv1.EndpointSlice) field.ErrorList { return checkUpdate(s, old) },
			Warnings:       func(_ context.Context, s, _ *discoveryv1.EndpointSlice) []string { return warnings(s) },
		},
		Columns: []table.Column{
			table.Name(),
			table.Text("AddressType", doc["addressType"]),
			table.Text("Ports", doc["ports"]),
			table.Text("Endpoints", doc["endpoints"]),
			table.Age(),
		},
		Row: func(s *discoveryv1.EndpointSlice) resource.Row {
			return resource.Row{Cells: []any{
				s.Name, string(s.AddressType), portsText(s.Ports), endpointsText(s.Endpoints), table.Since(s.CreationTimestamp),
			}}
		},
	})
}

func defaultSlice(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		p := &s.Ports[i]
		if p.Name == nil {
			p.Name = new("")
		}
		if p.Protocol == nil {
			p.Protocol = new(corev1.ProtocolTCP)
		}
	}
}

func prepareCreate(s *discoveryv1.EndpointSlice) {
	s.Generation = 1
	dropTopology(s)
}

// dropTopology removes deprecatedTopology, which only older versions of the group had.
func dropTopology(s *discoveryv1.EndpointSlice) {
	for i := range s.Endpoints {
		s.Endpoints[i].DeprecatedTopology = nil
	}
}

// prepareUpdate also increases the generation if the labels change: they say to which service the slice belongs.
func prepareUpdate(s, old *discoveryv1.EndpointSlice) {
	s.Generation = old.Generation
	dropTopology(s)
	if s.AddressType != old.AddressType || !equality.Semantic.DeepEqual(s.Endpoints, old.Endpoints) ||
		!equality.Semantic.DeepEqual(s.Ports, old.Ports) || !maps.Equal(s.Labels, old.Labels) {
		s.Generation++
	}
}

// shown is how many ports or addresses a row of a table shows.
const shown = 3

func portsText(ports []discoveryv1.EndpointPort) string {
	var all []string
	for _, p := range ports {
		switch {
		case p.Port != nil:
			all = append(all, strconv.Itoa(int(*p.Port)))
		case p.Name != nil && *p.Name != "":
			all = append(all, *p.Name)
		default:
			all = append(all, "*")
		}
	}
	return some(all)
}

func endpointsText(endpoints []discoveryv1.Endpoint) string {
	var all []string
	for _, e := range endpoints {
		all = append(all, e.Addresses...)
	}
	return some(all)
}

func some(all []string) string {
	switch {
	case len(all) == 0:
		return table.Unset
	case len(all) > shown:
		return fmt.Sprintf("%s + %d more...", strings.Join(all[:shown], ","), len(all)-shown)
	}
	return strings.Join(all, ",")
}
