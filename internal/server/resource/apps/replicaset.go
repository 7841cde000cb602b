package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/podspec"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// ReplicaSets keep a number of equal pods.
func ReplicaSets() *resource.Kind {
	return resource.Define(resource.Description[*appsv1.ReplicaSet]{
		Group: group, Version: version, Kind: "ReplicaSet", Resource: "replicasets",
		Namespaced: true, ShortNames: []string{"rs"}, Categories: []string{"all"},
		UnconditionalUpdate: true,
		Default:             defaultReplicaSet,
		Rules:               replicaSetRules,
		Status:              &replicaSetStatusRules,
		Scale: &resource.Scale[*appsv1.ReplicaSet]{
			Replicas: func(rs *appsv1.ReplicaSet) *int32 { return replicasOf(&rs.Spec.Replicas) },
			Status:   func(rs *appsv1.ReplicaSet) int32 { return rs.Status.Replicas },
			Selector: func(rs *appsv1.ReplicaSet) string { return selectorText(rs.Spec.Selector) },
		},
		Fields:  []resource.Field{{Label: "status.replicas"}},
		Columns: replicaSetColumns,
		Row:     replicaSetRow,
	})
}

func defaultReplicaSet(rs *appsv1.ReplicaSet) {
	podspec.DefaultTemplate(&rs.Spec.Template)
	if rs.Spec.Replicas == nil {
		rs.Spec.Replicas = new(int32(1))
	}
}

var (
	replicaSetSpecDoc   = appsv1.ReplicaSetSpec{}.SwaggerDoc()
	replicaSetStatusDoc = appsv1.ReplicaSetStatus{}.SwaggerDoc()
)

var replicaSetColumns = []table.Column{
	table.Name(),
	table.Integer("Desired", replicaSetSpecDoc["replicas"]),
	table.Integer("Current", replicaSetStatusDoc["replicas"]),
	table.Integer("Ready", replicaSetStatusDoc["readyReplicas"]),
	table.Age(),
	table.Wide(table.Text("Containers", "Names of each container in the template.")),
	table.Wide(table.Text("Images", "Images referenced by each container in the template.")),
	table.Wide(table.Text("Selector", replicaSetSpecDoc["selector"])),
}

func replicaSetRow(rs *appsv1.ReplicaSet) resource.Row {
	names, images := podspec.NamesAndImages(rs.Spec.Template.Spec.Containers)
	return resource.Row{Cells: []any{
		rs.Name, valueOf(rs.Spec.Replicas), rs.Status.Replicas, rs.Status.ReadyReplicas, table.Since(rs.CreationTimestamp),
		names, images, metav1.FormatLabelSelector(rs.Spec.Selector),
	}}
}
