package registry

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/resource/check"
)

// standardFinalizers may go without a domain.
var standardFinalizers = []string{"kubernetes", "orphan", "foregroundDeletion"}

// checkMeta checks what all objects have in common.
func (s *Storage) checkMeta(o resource.Object) field.ErrorList {
	errs := validation.ValidateObjectMetaAccessor(o, s.kind.Namespaced, s.kind.Name, metadata)
	return append(errs, s.checkFinalizers(o)...)
}

// checkMetaUpdate looks at what all updates have in common, and then once more with the eyes of the kind, as
// kube-apiserver does: clients see most findings twice.
func (s *Storage) checkMetaUpdate(o, old resource.Object) field.ErrorList {
	update := validation.ValidateObjectMetaAccessorUpdate(o, old, metadata)
	errs := validation.ValidateObjectMetaAccessor(o, s.kind.Namespaced, check.PathSegment, metadata)
	errs = append(errs, update...)
	if s.kind.MetaAgain {
		errs = append(errs, s.checkMeta(o)...)
	}
	return append(append(errs, update...), s.checkFinalizers(o)...)
}

var metadata = field.NewPath("metadata")

func (s *Storage) checkFinalizers(o resource.Object) field.ErrorList {
	if s.kind.FreeFinalizers {
		return nil
	}
	var errs field.ErrorList
	for i, f := range o.GetFinalizers() {
		if !strings.Contains(f, "/") && !slices.Contains(standardFinalizers, f) {
			errs = append(errs, field.Invalid(metadata.Child("finalizers").Index(i), f, "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}
