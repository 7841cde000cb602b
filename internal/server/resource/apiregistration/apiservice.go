// Package apiregistration describes the kinds of the group apiregistration.k8s.io, which say what server serves a group
// and version.
//
// package internal/server/aggregation finds out whether that server can be reached, and forwards requests to it.
package apiregistration

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind { return []*resource.Kind{Services()} }

// defaultPort is the port of a service that names none.
const defaultPort = 443

// Services say which server serves a group and version.
func Services() *resource.Kind {
	k := resource.Define(resource.Description[*v1.APIService]{
		Group: v1.SchemeGroupVersion.Group, Version: "v1", Kind: "APIService", Resource: "apiservices",
		Prefix: v1.SchemeGroupVersion.Group + "/apiservices", Categories: []string{"api-extensions"},
		NoGeneration: true,
		// The kind's rules validate the name, together with the group and the version.
		Name: func(string, bool) []string { return nil },
		Default: func(s *v1.APIService) {
			if r := s.Spec.Service; r != nil && r.Port == nil {
				r.Port = new(int32(defaultPort))
			}
		},
		Rules: resource.Rules[*v1.APIService]{
			PrepareCreate:  func(_ context.Context, s *v1.APIService) { noteLocal(s) },
			Validate:       func(_ context.Context, s *v1.APIService) field.ErrorList { return check(s) },
			ValidateUpdate: func(_ context.Context, s, _ *v1.APIService) field.ErrorList { return check(s) },
		},
		Status: &resource.Rules[*v1.APIService]{
			PrepareUpdate:  keepMeta,
			ValidateUpdate: func(_ context.Context, s, _ *v1.APIService) field.ErrorList { return checkStatus(&s.Status) },
		},
		Columns: []table.Column{
			table.Name(),
			table.Text("Service", "The reference to the service that hosts this API endpoint."),
			table.Text("Available", "Whether this service is available."),
			table.Age(),
		},
		Row: func(s *v1.APIService) resource.Row {
			of := "Local"
			if r := s.Spec.Service; r != nil {
				of = r.Namespace + "/" + r.Name
			}
			return resource.Row{Cells: []any{s.Name, of, available(s), table.Since(s.CreationTimestamp)}}
		},
	})
	k.Topology = topology
	return k
}

// available returns the cell for the condition Available.
func available(s *v1.APIService) string {
	for _, c := range s.Status.Conditions {
		switch {
		case c.Type != v1.Available:
		case c.Status == v1.ConditionTrue || c.Reason == "":
			return string(c.Status)
		default:
			return string(c.Status) + " (" + c.Reason + ")"
		}
	}
	return string(v1.ConditionUnknown)
}

func keepMeta(_ context.Context, s, old *v1.APIService) {
	s.Labels, s.Annotations, s.Finalizers, s.OwnerReferences = old.Labels, old.Annotations, old.Finalizers, old.OwnerReferences
}
