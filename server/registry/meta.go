package registry

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/resource/check"
	"github.com/millrace/millrace/server/resource/tree"
)

// standardFinalizers are allowed without a domain.
var standardFinalizers = []string{"kubernetes", "orphan", "foregroundDeletion"}

// checkMeta validates the metadata of a new object.
func (s *Storage) checkMeta(o resource.Object) field.ErrorList {
	errs := validation.ValidateObjectMetaAccessor(tree.Lean(o), s.kind.Namespaced, s.kind.Name, metadata)
	return append(errs, s.checkFinalizers(o)...)
}

// checkMetaUpdate validates the metadata of an update twice: as for all objects, and again with the rules of the kind. kube-apiserver does the same,
// so clients see most errors twice.
func (s *Storage) checkMetaUpdate(o, old resource.Object) field.ErrorList {
	now := tree.Lean(o)
	update := validation.ValidateObjectMetaAccessorUpdate(now, tree.Lean(old), metadata)
	errs := validation.ValidateObjectMetaAccessor(now, s.kind.Namespaced, check.PathSegment, metadata)
	errs = append(errs, update...)
	if s.kind.ValidateMetaTwice {
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
