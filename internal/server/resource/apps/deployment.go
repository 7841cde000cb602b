package apps

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/podspec"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// Deployments keep a number of equal pods and replace them gradually.
func Deployments() *resource.Kind {
	return resource.Define(resource.Description[*appsv1.Deployment]{
		Group: group, Version: version, Kind: "Deployment", Resource: "deployments",
		Namespaced: true, ShortNames: []string{"deploy"}, Categories: []string{"all"},
		UnconditionalUpdate: true,
		Default:             defaultDeployment,
		Changed: func(d, old *appsv1.Deployment) bool {
			return !equality.Semantic.DeepEqual(&d.Spec, &old.Spec) || !equality.Semantic.DeepEqual(d.Annotations, old.Annotations)
		},
		Rules:  deploymentRules,
		Status: &deploymentStatusRules,
		Scale: &resource.Scale[*appsv1.Deployment]{
			Replicas: func(d *appsv1.Deployment) *int32 { return replicasOf(&d.Spec.Replicas) },
			Status:   func(d *appsv1.Deployment) int32 { return d.Status.Replicas },
			Selector: func(d *appsv1.Deployment) string { return selectorText(d.Spec.Selector) },
		},
		Columns: deploymentColumns,
		Row:     deploymentRow,
	})
}

func defaultDeployment(d *appsv1.Deployment) {
	s := &d.Spec
	podspec.DefaultTemplate(&s.Template)
	if s.Replicas == nil {
		s.Replicas = new(int32(1))
	}
	if s.Strategy.Type == "" {
		s.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	}
	if s.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		if s.Strategy.RollingUpdate == nil {
			s.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{}
		}
		if s.Strategy.RollingUpdate.MaxUnavailable == nil {
			s.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromString("25%"))
		}
		if s.Strategy.RollingUpdate.MaxSurge == nil {
			s.Strategy.RollingUpdate.MaxSurge = new(intstr.FromString("25%"))
		}
	}
	if s.RevisionHistoryLimit == nil {
		s.RevisionHistoryLimit = new(int32(10))
	}
	if s.ProgressDeadlineSeconds == nil {
		s.ProgressDeadlineSeconds = new(int32(600))
	}
}

var (
	deploymentSpecDoc   = appsv1.DeploymentSpec{}.SwaggerDoc()
	deploymentStatusDoc = appsv1.DeploymentStatus{}.SwaggerDoc()
)

var deploymentColumns = []table.Column{
	table.Name(),
	table.Text("Ready", "Number of the pod with ready state"),
	table.Text("Up-to-date", deploymentStatusDoc["updatedReplicas"]),
	table.Text("Available", deploymentStatusDoc["availableReplicas"]),
	table.Age(),
	table.Wide(table.Text("Containers", "Names of each container in the template.")),
	table.Wide(table.Text("Images", "Images referenced by each container in the template.")),
	table.Wide(table.Text("Selector", deploymentSpecDoc["selector"])),
}

func deploymentRow(d *appsv1.Deployment) resource.Row {
	names, images := podspec.NamesAndImages(d.Spec.Template.Spec.Containers)
	selector := metav1.FormatLabelSelector(d.Spec.Selector)
	return resource.Row{Cells: []any{
		d.Name, fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, valueOf(d.Spec.Replicas)), d.Status.UpdatedReplicas,
		d.Status.AvailableReplicas, table.Since(d.CreationTimestamp), names, images, selector,
	}}
}
