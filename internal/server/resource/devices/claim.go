package devices

import (
	"context"
	"strings"

	v1 "k8s.io/api/resource/v1"
	"k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

var (
	claimSpec    declared[v1.ResourceClaimSpec]         = v1.Validate_ResourceClaimSpec
	claimStatus  declared[v1.ResourceClaimStatus]       = v1.Validate_ResourceClaimStatus
	templateSpec declared[v1.ResourceClaimTemplateSpec] = v1.Validate_ResourceClaimTemplateSpec
)

// Claims request devices.
func Claims() *resource.Kind {
	type claim = *v1.ResourceClaim
	return resource.Define(resource.Description[claim]{
		Group: v1.GroupName, Version: "v1", Kind: "ResourceClaim", Resource: "resourceclaims", Namespaced: true,
		UnconditionalUpdate: true, NoGeneration: true, ReturnDeleted: true,
		Default: func(c claim) { defaultClaim(&c.Spec) },
		Rules: resource.Rules[claim]{
			PrepareCreate: func(_ context.Context, c claim) { dropFromClaim(&c.Spec) },
			Validate: func(ctx context.Context, c claim) field.ErrorList {
				return both(checkClaim(&c.Spec.Devices, field.NewPath("spec", "devices")), claimSpec.created(ctx, "spec", &c.Spec))
			},
			ValidateUpdate: func(_ context.Context, c, old claim) field.ErrorList {
				if equality.Semantic.DeepEqual(c.Spec, old.Spec) {
					return nil
				}
				return field.ErrorList{field.Invalid(field.NewPath("spec"), nil, validation.FieldImmutableErrorMsg)}
			},
		},
		Status: &resource.Rules[claim]{
			PrepareUpdate: func(_ context.Context, c, old claim) {
				metav1.ResetObjectMetaForStatus(c, old)
				dropFromStatus(&c.Status)
				dropFreed(c, old)
			},
			ValidateUpdate: func(ctx context.Context, c, old claim) field.ErrorList {
				return both(checkClaimStatus(c, old), claimStatus.updated(ctx, "status", &c.Status, &old.Status))
			},
		},
		Columns: []table.Column{table.Name(), table.Text("State", "A summary of the current state (allocated, pending, reserved, etc.)."), table.Age()},
		Row: func(c claim) resource.Row {
			return resource.Row{Cells: []any{c.Name, state(c), table.Since(c.CreationTimestamp)}}
		},
		Also: []resource.Serving[claim]{
			resource.Alike[claim, v1beta2.ResourceClaim](v1beta2.SchemeGroupVersion.WithKind("ResourceClaim")),
			claimOfBeta1(),
		},
	})
}

// ClaimTemplates are templates for the claims of pods.
func ClaimTemplates() *resource.Kind {
	type template = *v1.ResourceClaimTemplate
	return resource.Define(resource.Description[template]{
		Group: v1.GroupName, Version: "v1", Kind: "ResourceClaimTemplate", Resource: "resourceclaimtemplates", Namespaced: true,
		UnconditionalUpdate: true, NoGeneration: true, ReturnDeleted: true,
		Default: func(t template) { defaultClaim(&t.Spec.Spec) },
		Rules: resource.Rules[template]{
			PrepareCreate: func(_ context.Context, t template) { dropFromClaim(&t.Spec.Spec) },
			Validate: func(ctx context.Context, t template) field.ErrorList {
				return both(checkTemplate(t), templateSpec.created(ctx, "spec", &t.Spec))
			},
			ValidateUpdate: checkTemplateUpdate,
		},
		Columns: []table.Column{table.Name(), table.Age()},
		Row: func(t template) resource.Row {
			return resource.Row{Cells: []any{t.Name, table.Since(t.CreationTimestamp)}}
		},
		Also: []resource.Serving[template]{
			resource.Alike[template, v1beta2.ResourceClaimTemplate](v1beta2.SchemeGroupVersion.WithKind("ResourceClaimTemplate")),
			templateOfBeta1(),
		},
	})
}

func state(c *v1.ResourceClaim) string {
	var states []string
	if c.DeletionTimestamp != nil {
		states = append(states, "deleted")
	}
	switch {
	case c.Status.Allocation != nil:
		states = append(states, "allocated")
		if len(c.Status.ReservedFor) > 0 {
			states = append(states, "reserved")
		}
	case c.DeletionTimestamp == nil:
		states = append(states, "pending")
	}
	return strings.Join(states, ",")
}

func defaultClaim(s *v1.ResourceClaimSpec) {
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if e := r.Exactly; e != nil {
			defaultCount(&e.AllocationMode, &e.Count)
			defaultTolerations(e.Tolerations)
		}
		for j := range r.FirstAvailable {
			f := &r.FirstAvailable[j]
			defaultCount(&f.AllocationMode, &f.Count)
			defaultTolerations(f.Tolerations)
		}
	}
}

func defaultCount(mode *v1.DeviceAllocationMode, count *int64) {
	if *mode == "" {
		*mode = v1.DeviceAllocationModeExactCount
	}
	if *mode == v1.DeviceAllocationModeExactCount && *count == 0 {
		*count = 1
	}
}

func defaultTolerations(all []v1.DeviceToleration) {
	for i := range all {
		if all[i].Operator == "" {
			all[i].Operator = v1.DeviceTolerationOpEqual
		}
	}
}

// dropFromClaim removes the fields of features that are off by default in Kubernetes.
func dropFromClaim(s *v1.ResourceClaimSpec) {
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if r.Exactly != nil {
			r.Exactly.DerivedAttributes = nil
		}
		for j := range r.FirstAvailable {
			r.FirstAvailable[j].DerivedAttributes = nil
		}
	}
}

func dropFromStatus(s *v1.ResourceClaimStatus) {
	if s.Allocation == nil {
		return
	}
	for i := range s.Allocation.Devices.Results {
		s.Allocation.Devices.Results[i].SkipNodeOperations = nil
	}
}
