package storagemigration

import (
	"strings"

	v1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	checks "github.com/millrace/millrace/internal/server/resource/check"
)

func check(m migration) field.ErrorList {
	var errs field.ErrorList
	of, path := m.Spec.Resource, field.NewPath("spec", "resource")
	if of.Resource == "" {
		errs = append(errs, field.Required(path.Child("resource"), "resource is required to be set"))
	} else if problems := validation.IsDNS1035Label(of.Resource); len(problems) > 0 {
		errs = append(errs, field.Invalid(path.Child("resource"), of.Resource, strings.Join(problems, ",")))
	}
	if of.Group == "" {
		return errs
	}
	if problems := validation.IsDNS1123Subdomain(of.Group); len(problems) > 0 {
		errs = append(errs, field.Invalid(path.Child("group"), of.Group, strings.Join(problems, ",")))
	}
	return errs
}

func checkUpdate(m, old migration) field.ErrorList {
	return append(check(m), checks.Immutable(m.Spec, old.Spec, field.NewPath("spec"))...)
}

func checkStatusUpdate(m, old migration) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("status")
	version := m.Status.ResourceVersion
	if version != "" {
		if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
			errs = append(errs, field.Invalid(path.Child("resourceVersion"), version, err.Error()))
		}
	}
	errs = append(errs, metav1validation.ValidateConditions(m.Status.Conditions, path.Child("conditions"))...)
	if was := old.Status.ResourceVersion; was != "" && was != version {
		errs = append(errs, field.Invalid(path.Child("resourceVersion"), version, "field is immutable"))
	}
	wrong := func(problem string) {
		errs = append(errs, field.Invalid(path.Child("conditions"), m.Status.Conditions, problem))
	}
	succeeded, failed := ended(m, v1.MigrationSucceeded), ended(m, v1.MigrationFailed)
	if succeeded && failed {
		wrong("Both success and failed conditions cannot be true at the same time")
	}
	if ended(old, v1.MigrationSucceeded) && !succeeded {
		wrong("Success condition cannot be set to false once it is true")
	}
	if ended(old, v1.MigrationFailed) && !failed {
		wrong("Failed condition cannot be set to false once it is true")
	}
	return errs
}

func ended(m migration, how v1.MigrationConditionType) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, string(how))
}
