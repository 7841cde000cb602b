package registry

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/resource"
)

// standardFinalizers may go without a domain.
var standardFinalizers = []string{"kubernetes", "orphan", "foregroundDeletion"}

// checkMeta checks what all objects have in common.
func (s *Storage) checkMeta(o resource.Object) field.ErrorList {
	path := field.NewPath("metadata")
	errs := validation.ValidateObjectMetaAccessor(o, s.kind.Namespaced, s.kind.Name, path)
	if s.kind.FreeFinalizers || s.kind.Codec.ContentType() == resource.JSONType {
		return errs // custom kinds may name their finalizers as they like
	}
	for i, f := range o.GetFinalizers() {
		if !strings.Contains(f, "/") && !slices.Contains(standardFinalizers, f) {
			errs = append(errs, field.Invalid(path.Child("finalizers").Index(i), f, "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}
