package apiextensions

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// internal converts a definition to the internal type that Kubernetes' validation takes. The two share parts, which the
// validation does not change.
func internal(d *v1.CustomResourceDefinition) (*apiextensions.CustomResourceDefinition, *field.Error) {
	out := &apiextensions.CustomResourceDefinition{}
	if err := v1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(d, out, nil); err != nil {
		return nil, field.InternalError(nil, err)
	}
	return out, nil
}

func check(ctx context.Context, d *v1.CustomResourceDefinition) field.ErrorList {
	rules := func(d *v1.CustomResourceDefinition) field.ErrorList {
		now, err := internal(d)
		if err != nil {
			return field.ErrorList{err}
		}
		return withoutMetadata(guarded(now, func() field.ErrorList { return validation.ValidateCustomResourceDefinition(ctx, now) }))
	}
	if plain(d) && len(rules(withoutSchemas(d))) == 0 {
		return nil
	}
	return rules(d) // whose errors may quote schemas
}

// guarded runs the published validation, which panics on selectable fields of a schema that is not structural. In that
// case it runs again without these fields, and reports the other errors, of which there is at least one.
func guarded(d *apiextensions.CustomResourceDefinition, rules func() field.ErrorList) (errs field.ErrorList) {
	defer func() {
		if problem := recover(); problem != nil {
			if !dropSelectableFields(d) {
				panic(problem)
			}
			errs = rules()
		}
	}()
	return rules()
}

func dropSelectableFields(d *apiextensions.CustomResourceDefinition) (any bool) {
	any = len(d.Spec.SelectableFields) > 0
	d.Spec.SelectableFields = nil
	for i := range d.Spec.Versions {
		any = any || len(d.Spec.Versions[i].SelectableFields) > 0
		d.Spec.Versions[i].SelectableFields = nil
	}
	return any
}

func checkUpdate(ctx context.Context, d, old *v1.CustomResourceDefinition) field.ErrorList {
	return onBoth(ctx, d, old, validation.ValidateCustomResourceDefinitionUpdate)
}

func checkStatusUpdate(ctx context.Context, d, old *v1.CustomResourceDefinition) field.ErrorList {
	return onBoth(ctx, d, old, validation.ValidateUpdateCustomResourceDefinitionStatus)
}

func onBoth(ctx context.Context, d, old *v1.CustomResourceDefinition,
	f func(ctx context.Context, d, old *apiextensions.CustomResourceDefinition) field.ErrorList) field.ErrorList {
	rules := func(d, old *v1.CustomResourceDefinition) field.ErrorList {
		now, err := internal(d)
		if err != nil {
			return field.ErrorList{err}
		}
		before, err := internal(old)
		if err != nil {
			return field.ErrorList{err}
		}
		return withoutMetadata(guarded(now, func() field.ErrorList { return f(ctx, now, before) }))
	}
	if plain(d) && len(rules(withoutSchemas(d), withoutSchemas(old))) == 0 {
		return nil
	}
	return rules(d, old)
}

// withoutMetadata removes the errors about metadata that the registry reports itself. It keeps the one about the name,
// which must match the definition, and the one about the annotation that approves a group of Kubernetes' own.
func withoutMetadata(errs field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(errs, func(e *field.Error) bool {
		approval := e.Field == "metadata.annotations["+v1.KubeAPIApprovedAnnotation+"]"
		return strings.HasPrefix(e.Field, "metadata") && !approval && !strings.Contains(e.Detail, "must be spec.names.plural")
	})
}
