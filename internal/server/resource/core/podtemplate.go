package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/podspec"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// PodTemplates are stored templates of pods.
func PodTemplates() *resource.Kind {
	return resource.Define(resource.Description[*corev1.PodTemplate]{
		Version: "v1", Kind: "PodTemplate", Resource: "podtemplates", Namespaced: true,
		UnconditionalUpdate: true, ReturnDeleted: true,
		Default: func(t *corev1.PodTemplate) { podspec.DefaultTemplate(&t.Template) },
		Changed: func(t, old *corev1.PodTemplate) bool { return !equality.Semantic.DeepEqual(&t.Template, &old.Template) },
		Rules: resource.Rules[*corev1.PodTemplate]{
			Validate: checkPodTemplate,
			ValidateUpdate: func(ctx context.Context, t, _ *corev1.PodTemplate) field.ErrorList {
				return checkPodTemplate(ctx, t)
			},
			Warnings: func(_ context.Context, t, _ *corev1.PodTemplate) []string {
				return podspec.TemplateWarnings(&t.Template, field.NewPath("template"))
			},
		},
		Columns: []table.Column{
			table.Name(),
			table.Text("Containers", "Names of each container in the template."),
			table.Text("Images", "Images referenced by each container in the template."),
			table.Text("Pod Labels", "The labels for the pod template."),
		},
		Row: func(t *corev1.PodTemplate) resource.Row {
			names, images := podspec.NamesAndImages(t.Template.Spec.Containers)
			return resource.Row{Cells: []any{t.Name, names, images, table.Labels(t.Template.Labels)}}
		},
	})
}

func checkPodTemplate(ctx context.Context, t *corev1.PodTemplate) field.ErrorList {
	return podspec.ValidateTemplate(&t.Template, field.NewPath("template"), podspec.OptionsFrom(ctx))
}
