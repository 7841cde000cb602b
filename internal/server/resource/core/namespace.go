package core

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// Namespaces hold the objects of namespaced kinds. A deleted namespace stays, with the phase Terminating, until the
// controllers in spec.finalizers have deleted its content.
func Namespaces() *resource.Kind {
	return resource.Define(resource.Description[*corev1.Namespace]{
		Group: "", Version: "v1", Kind: "Namespace", Resource: "namespaces",
		ValidateMetaTwice: true,
		ShortNames:        []string{"ns"}, NoVerbs: []string{"deletecollection"},
		NoGeneration: true, UnconditionalUpdate: true,
		Name:    validation.NameIsDNSLabel,
		Default: defaultNamespace,
		Rules: resource.Rules[*corev1.Namespace]{
			PrepareCreate: prepareNamespace,
			PrepareUpdate: func(_ context.Context, ns, old *corev1.Namespace) { ns.Spec.Finalizers = old.Spec.Finalizers },
			Validate: func(_ context.Context, ns *corev1.Namespace) field.ErrorList {
				defaultNamespace(ns) // a generated name is known only here
				var errs field.ErrorList
				for _, f := range ns.Spec.Finalizers {
					errs = append(errs, checkNamespaceFinalizer(f, field.NewPath("spec", "finalizers"))...)
				}
				return errs
			},
		},
		Status: &resource.Rules[*corev1.Namespace]{
			ValidateUpdate: func(_ context.Context, ns, _ *corev1.Namespace) field.ErrorList { return checkPhase(ns) },
		},
		Views: map[string]resource.View[*corev1.Namespace]{
			"finalize": {Verbs: []string{"update"}, Rules: resource.Rules[*corev1.Namespace]{
				PrepareUpdate: func(_ context.Context, ns, old *corev1.Namespace) { ns.Status = old.Status },
				ValidateUpdate: func(_ context.Context, ns, _ *corev1.Namespace) field.ErrorList {
					var errs field.ErrorList
					for i, f := range ns.Spec.Finalizers {
						errs = append(errs, checkNamespaceFinalizer(f, field.NewPath("spec", "finalizers").Index(i))...)
					}
					return errs
				},
			}},
		},
		Held: func(ns *corev1.Namespace) bool { return len(ns.Spec.Finalizers) > 0 },
		PrepareDelete: func(ns *corev1.Namespace) {
			ns.Status.Phase = corev1.NamespaceTerminating
			ns.DeletionGracePeriodSeconds = nil // the content of the namespace decides how long it takes
		},
		Fields:  []resource.Field{{Label: "status.phase"}},
		Columns: []table.Column{table.Name(), table.Text("Status", "The status of the namespace"), table.Age()},
		Row: func(ns *corev1.Namespace) resource.Row {
			return resource.Row{Cells: []any{ns.Name, string(ns.Status.Phase), table.Since(ns.CreationTimestamp)}}
		},
	})
}

// defaultNamespace sets the phase of a new namespace, and the label with which it can be selected by name.
func defaultNamespace(ns *corev1.Namespace) {
	if ns.Status.Phase == "" {
		ns.Status.Phase = corev1.NamespaceActive
	}
	if ns.Name == "" || ns.Labels[corev1.LabelMetadataName] == ns.Name {
		return
	}
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[corev1.LabelMetadataName] = ns.Name
}

func prepareNamespace(_ context.Context, ns *corev1.Namespace) {
	ns.Status.Phase = corev1.NamespaceActive
	if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
}

func checkNamespaceFinalizer(f corev1.FinalizerName, path *field.Path) field.ErrorList {
	errs := validation.ValidateFinalizerName(string(f), path)
	if !slices.Contains([]byte(f), '/') && f != corev1.FinalizerKubernetes && !standardFinalizers[string(f)] {
		errs = append(errs, field.Invalid(path, string(f), "name is neither a standard finalizer name nor is it fully qualified"))
	}
	return errs
}

// standardFinalizers are allowed without a domain.
var standardFinalizers = map[string]bool{"orphan": true, "foregroundDeletion": true}

func checkPhase(ns *corev1.Namespace) field.ErrorList {
	path := field.NewPath("status", "Phase")
	switch {
	case ns.DeletionTimestamp == nil && ns.Status.Phase != corev1.NamespaceActive:
		return field.ErrorList{field.Invalid(path, ns.Status.Phase, "may only be 'Active' if `deletionTimestamp` is empty")}
	case ns.DeletionTimestamp != nil && ns.Status.Phase != corev1.NamespaceTerminating:
		return field.ErrorList{field.Invalid(path, ns.Status.Phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")}
	}
	return nil
}
