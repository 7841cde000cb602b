package core

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/podspec"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// ReplicationControllers keep a number of equal pods; ReplicaSets have replaced them.
func ReplicationControllers() *resource.Kind {
	return resource.Define(resource.Description[*corev1.ReplicationController]{
		Version: "v1", Kind: "ReplicationController", Resource: "replicationcontrollers", Prefix: "controllers",
		Namespaced: true, Name: nameOfController, ShortNames: []string{"rc"}, Categories: []string{"all"},
		UnconditionalUpdate: true, OrphanByDefault: true,
		Default: defaultController,
		Rules:   controllerRules,
		Status:  &controllerStatusRules,
		Scale: &resource.Scale[*corev1.ReplicationController]{
			Replicas: func(rc *corev1.ReplicationController) *int32 {
				if rc.Spec.Replicas == nil {
					rc.Spec.Replicas = new(int32)
				}
				return rc.Spec.Replicas
			},
			Status:   func(rc *corev1.ReplicationController) int32 { return rc.Status.Replicas },
			Selector: func(rc *corev1.ReplicationController) string { return labels.FormatLabels(rc.Spec.Selector) },
		},
		Fields:  []resource.Field{{Label: "status.replicas"}},
		Columns: controllerColumns,
		Row:     controllerRow,
	})
}

func defaultController(rc *corev1.ReplicationController) {
	if t := rc.Spec.Template; t != nil {
		podspec.DefaultTemplate(t)
		if t.Labels != nil && len(rc.Spec.Selector) == 0 {
			rc.Spec.Selector = maps.Clone(t.Labels)
		}
		if t.Labels != nil && len(rc.Labels) == 0 {
			rc.Labels = maps.Clone(t.Labels)
		}
	}
	if rc.Spec.Replicas == nil {
		rc.Spec.Replicas = new(int32(1))
	}
}

var (
	controllerSpecDoc   = corev1.ReplicationControllerSpec{}.SwaggerDoc()
	controllerStatusDoc = corev1.ReplicationControllerStatus{}.SwaggerDoc()
)

var controllerColumns = []table.Column{
	table.Name(),
	table.Integer("Desired", controllerSpecDoc["replicas"]),
	table.Integer("Current", controllerStatusDoc["replicas"]),
	table.Integer("Ready", controllerStatusDoc["readyReplicas"]),
	table.Age(),
	table.Wide(table.Text("Containers", "Names of each container in the template.")),
	table.Wide(table.Text("Images", "Images referenced by each container in the template.")),
	table.Wide(table.Text("Selector", controllerSpecDoc["selector"])),
}

func controllerRow(rc *corev1.ReplicationController) resource.Row {
	var names, images string
	if rc.Spec.Template != nil {
		names, images = podspec.NamesAndImages(rc.Spec.Template.Spec.Containers)
	}
	var desired int32
	if rc.Spec.Replicas != nil {
		desired = *rc.Spec.Replicas
	}
	return resource.Row{Cells: []any{
		rc.Name, desired, rc.Status.Replicas, rc.Status.ReadyReplicas, table.Since(rc.CreationTimestamp),
		names, images, table.Labels(rc.Spec.Selector),
	}}
}

// nameOfController requires a subdomain; the prefix of a generated name must only be a valid path segment.
func nameOfController(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsDNS1123Subdomain(name)
}
