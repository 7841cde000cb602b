package devices

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/resource/v1"
	"k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

var sliceSpec declared[v1.ResourceSliceSpec] = v1.Validate_ResourceSliceSpec

// Slices list the devices of a driver.
func Slices() *resource.Kind {
	spec := v1.ResourceSliceSpec{}.SwaggerDoc()
	return resource.Define(resource.Description[*v1.ResourceSlice]{
		Group: v1.GroupName, Version: "v1", Kind: "ResourceSlice", Resource: "resourceslices",
		UnconditionalUpdate: true, ReturnDeleted: true,
		Default: func(s *v1.ResourceSlice) {
			for i := range s.Spec.Devices {
				for j := range s.Spec.Devices[i].Taints {
					defaultTaint(&s.Spec.Devices[i].Taints[j])
				}
			}
		},
		Fields: []resource.Field{
			{Label: v1.ResourceSliceSelectorNodeName, Indexed: true},
			{Label: v1.ResourceSliceSelectorDriver},
			{Label: v1.ResourceSliceSelectorPoolName},
		},
		Rules: resource.Rules[*v1.ResourceSlice]{
			PrepareCreate: func(_ context.Context, s *v1.ResourceSlice) { dropFromSlice(&s.Spec) },
			PrepareUpdate: func(_ context.Context, s, _ *v1.ResourceSlice) { dropFromSlice(&s.Spec) },
			Validate: func(ctx context.Context, s *v1.ResourceSlice) field.ErrorList {
				return both(checkSlice(&s.Spec, nil), sliceSpec.created(ctx, "spec", &s.Spec))
			},
			ValidateUpdate: func(ctx context.Context, s, old *v1.ResourceSlice) field.ErrorList {
				return both(checkSlice(&s.Spec, &old.Spec), sliceSpec.updated(ctx, "spec", &s.Spec, &old.Spec))
			},
			Warnings: sliceWarnings,
		},
		Columns: []table.Column{
			table.Name(), table.Text("Node", spec["nodeName"]), table.Text("Driver", spec["driver"]),
			table.Text("Pool", v1.ResourcePool{}.SwaggerDoc()["name"]), table.Age(),
		},
		Row: func(s *v1.ResourceSlice) resource.Row {
			return resource.Row{Cells: []any{s.Name, or(s.Spec.NodeName, ""), s.Spec.Driver, s.Spec.Pool.Name, table.Since(s.CreationTimestamp)}}
		},
		Also: []resource.Serving[*v1.ResourceSlice]{
			resource.Alike[*v1.ResourceSlice, v1beta2.ResourceSlice](v1beta2.SchemeGroupVersion.WithKind("ResourceSlice")),
			sliceOfBeta1(),
		},
	})
}

func sliceWarnings(_ context.Context, s, _ *v1.ResourceSlice) []string {
	if d := s.Spec.Driver; d != strings.ToLower(d) {
		return []string{fmt.Sprintf("spec.driver: driver names should be lowercase; %q contains uppercase characters", d)}
	}
	return nil
}

// dropFromSlice removes the fields of features that are off by default in Kubernetes.
func dropFromSlice(s *v1.ResourceSliceSpec) {
	s.PartitionTypeAttribute, s.SkipNodeOperations = nil, nil
	for i := range s.Devices {
		d := &s.Devices[i]
		d.NodeAllocatableResources = nil
		for j := range d.ConsumesCounters {
			d.ConsumesCounters[j].CompatibilityGroups = nil
		}
		for name, a := range d.Attributes {
			a.BoolValues, a.IntValues, a.StringValues, a.VersionValues = nil, nil, nil, nil
			d.Attributes[name] = a
		}
	}
}
