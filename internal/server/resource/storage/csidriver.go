package storage

import (
	"context"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// CSIDrivers describe what a CSI driver needs from the cluster.
func CSIDrivers() *resource.Kind {
	doc := storagev1.CSIDriverSpec{}.SwaggerDoc()
	return resource.Define(resource.Description[*storagev1.CSIDriver]{
		Group: storagev1.GroupName, Version: "v1", Kind: "CSIDriver", Resource: "csidrivers",
		NoGeneration: true, ReturnDeleted: true,
		Default: defaultDriver,
		Rules: resource.Rules[*storagev1.CSIDriver]{
			PrepareUpdate:  func(_ context.Context, d, old *storagev1.CSIDriver) { countDriver(d, old) },
			Validate:       func(_ context.Context, d *storagev1.CSIDriver) field.ErrorList { return checkDriver(d) },
			ValidateUpdate: func(_ context.Context, d, old *storagev1.CSIDriver) field.ErrorList { return checkDriverUpdate(d, old) },
			Warnings:       func(_ context.Context, d, _ *storagev1.CSIDriver) []string { return driverWarnings(d) },
		},
		Columns: []table.Column{
			table.Name(),
			table.Boolean("AttachRequired", doc["attachRequired"]),
			table.Boolean("PodInfoOnMount", doc["podInfoOnMount"]),
			table.Boolean("StorageCapacity", doc["storageCapacity"]),
			table.Text("TokenRequests", doc["tokenRequests"]),
			table.Boolean("RequiresRepublish", doc["requiresRepublish"]),
			table.Text("Modes", doc["volumeLifecycleModes"]),
			table.Age(),
		},
		Row: driverRow,
	})
}

func defaultDriver(d *storagev1.CSIDriver) {
	s := &d.Spec
	fill(&s.AttachRequired, true)
	fill(&s.PodInfoOnMount, false)
	fill(&s.StorageCapacity, false)
	fill(&s.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	fill(&s.RequiresRepublish, false)
	fill(&s.SELinuxMount, false)
	fill(&s.PreventPodSchedulingIfMissing, false)
	if len(s.VolumeLifecycleModes) == 0 {
		s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
}

func fill[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

func countDriver(d, old *storagev1.CSIDriver) {
	d.Generation = old.Generation
	if !equality.Semantic.DeepEqual(d.Spec, old.Spec) {
		d.Generation++
	}
}

func driverRow(d *storagev1.CSIDriver) resource.Row {
	s := &d.Spec
	attach := true
	if s.AttachRequired != nil {
		attach = *s.AttachRequired
	}
	tokens := table.Unset
	if s.TokenRequests != nil {
		var audiences []string
		for _, r := range s.TokenRequests {
			audiences = append(audiences, r.Audience)
		}
		tokens = strings.Join(audiences, ",")
	}
	modes := table.None
	if len(s.VolumeLifecycleModes) > 0 {
		var names []string
		for _, m := range s.VolumeLifecycleModes {
			names = append(names, string(m))
		}
		modes = strings.Join(names, ",")
	}
	return resource.Row{Cells: []any{
		d.Name, attach, isTrue(s.PodInfoOnMount), isTrue(s.StorageCapacity), tokens, isTrue(s.RequiresRepublish), modes,
		table.Since(d.CreationTimestamp),
	}}
}
