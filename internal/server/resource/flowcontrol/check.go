package flowcontrol

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
)

// checkConditions requires a type for each condition, and refuses duplicates.
func checkConditions(types []string) field.ErrorList {
	var errs field.ErrorList
	for i, t := range types {
		at := field.NewPath("status", "conditions").Index(i).Child("type")
		if slices.Contains(types[:i], t) {
			errs = append(errs, field.Duplicate(at, t))
		}
		if t == "" {
			errs = append(errs, field.Required(at, ""))
		}
	}
	return errs
}

// keepMeta makes an update of the status keep all metadata that clients may set.
func keepMeta(o, old resource.Object) {
	o.SetLabels(old.GetLabels())
	o.SetAnnotations(old.GetAnnotations())
	o.SetFinalizers(old.GetFinalizers())
	o.SetOwnerReferences(old.GetOwnerReferences())
}
