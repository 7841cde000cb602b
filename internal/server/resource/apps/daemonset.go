package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/podspec"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// DaemonSets run one pod on every matching node.
func DaemonSets() *resource.Kind {
	return resource.Define(resource.Description[*appsv1.DaemonSet]{
		Group: group, Version: version, Kind: "DaemonSet", Resource: "daemonsets",
		Namespaced: true, ShortNames: []string{"ds"}, Categories: []string{"all"},
		UnconditionalUpdate: true,
		Default:             defaultDaemonSet,
		Rules:               daemonSetRules,
		Status:              &daemonSetStatusRules,
		Columns:             daemonSetColumns,
		Row:                 daemonSetRow,
	})
}

func defaultDaemonSet(d *appsv1.DaemonSet) {
	if _, ok := d.Annotations[templateGeneration]; !ok {
		countTemplates(d, 0)
	}
	s := &d.Spec
	podspec.DefaultTemplate(&s.Template)
	if s.UpdateStrategy.Type == "" {
		s.UpdateStrategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
	}
	if s.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		if s.UpdateStrategy.RollingUpdate == nil {
			s.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{}
		}
		if s.UpdateStrategy.RollingUpdate.MaxUnavailable == nil {
			s.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1))
		}
		if s.UpdateStrategy.RollingUpdate.MaxSurge == nil {
			s.UpdateStrategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(0))
		}
	}
	if s.RevisionHistoryLimit == nil {
		s.RevisionHistoryLimit = new(int32(10))
	}
}

var (
	daemonSetSpecDoc   = appsv1.DaemonSetSpec{}.SwaggerDoc()
	daemonSetStatusDoc = appsv1.DaemonSetStatus{}.SwaggerDoc()
)

var daemonSetColumns = []table.Column{
	table.Name(),
	table.Integer("Desired", daemonSetStatusDoc["desiredNumberScheduled"]),
	table.Integer("Current", daemonSetStatusDoc["currentNumberScheduled"]),
	table.Integer("Ready", daemonSetStatusDoc["numberReady"]),
	table.Integer("Up-to-date", daemonSetStatusDoc["updatedNumberScheduled"]),
	table.Integer("Available", daemonSetStatusDoc["numberAvailable"]),
	table.Text("Node Selector", "The node selector of the template's pods."),
	table.Age(),
	table.Wide(table.Text("Containers", "Names of each container in the template.")),
	table.Wide(table.Text("Images", "Images referenced by each container in the template.")),
	table.Wide(table.Text("Selector", daemonSetSpecDoc["selector"])),
}

func daemonSetRow(d *appsv1.DaemonSet) resource.Row {
	names, images := podspec.NamesAndImages(d.Spec.Template.Spec.Containers)
	s := &d.Status
	return resource.Row{Cells: []any{
		d.Name, s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberReady, s.UpdatedNumberScheduled, s.NumberAvailable,
		table.Labels(d.Spec.Template.Spec.NodeSelector), table.Since(d.CreationTimestamp),
		names, images, metav1.FormatLabelSelector(d.Spec.Selector),
	}}
}
