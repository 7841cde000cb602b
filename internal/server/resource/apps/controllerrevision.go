package apps

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// ControllerRevisions hold earlier versions of daemon sets and stateful sets.
func ControllerRevisions() *resource.Kind {
	return resource.Define(resource.Description[*appsv1.ControllerRevision]{
		Group: group, Version: version, Kind: "ControllerRevision", Resource: "controllerrevisions", Namespaced: true,
		ValidateMetaTwice:   true,
		UnconditionalUpdate: true,
		Rules:               revisionRules,
		Columns: []table.Column{
			table.Name(),
			table.Text("Controller", "Controller of the object"),
			table.Text("Revision", appsv1.ControllerRevision{}.SwaggerDoc()["revision"]),
			table.Age(),
		},
		Row: func(r *appsv1.ControllerRevision) resource.Row {
			return resource.Row{Cells: []any{r.Name, controllerText(r), r.Revision, table.Since(r.CreationTimestamp)}}
		},
	})
}

// controllerText returns an owner as kubectl names it: kind.group/name.
func controllerText(o metav1.Object) string {
	owner := metav1.GetControllerOf(o)
	if owner == nil {
		return table.None
	}
	kind := strings.ToLower(owner.Kind)
	if group, _, found := strings.Cut(owner.APIVersion, "/"); found {
		kind += "." + group
	}
	return kind + "/" + owner.Name
}
