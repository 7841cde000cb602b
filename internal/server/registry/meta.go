package registry

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

// standardFinalizers are allowed without a domain.
var standardFinalizers = []string{"kubernetes", "orphan", "foregroundDeletion"}

// checkMeta validates the metadata of a new object.
func (s *Storage) checkMeta(o resource.Object) field.ErrorList {
	errs := validation.ValidateObjectMetaAccessor(tree.Lean(o), s.kind.Namespaced, s.kind.Name, metadata)
	return append(errs, s.checkFinalizers(o)...)
}

// checkMetaUpdate validates the metadata of an update twice: as for all objects, and again with the rules of the kind.
// kube-apiserver does the same, so clients see most errors twice.
func (s *Storage) checkMetaUpdate(o, old resource.Object) field.ErrorList {
	now, before := tree.Lean(o), tree.Lean(old)
	if sameMetadata(now, before) && len(metav1validation.ValidateManagedFields(now.GetManagedFields(), metadata)) == 0 {
		return nil
	}
	update := validation.ValidateObjectMetaAccessorUpdate(now, before, metadata)
	errs := validation.ValidateObjectMetaAccessor(now, s.kind.Namespaced, check.PathSegment, metadata)
	errs = append(errs, update...)
	if s.kind.ValidateMetaTwice {
		errs = append(errs, s.checkMeta(o)...)
	}
	return append(append(errs, update...), s.checkFinalizers(o)...)
}

var metadata = field.NewPath("metadata")

// sameMetadata tells whether two states of an object have the same metadata, but for the version, the managed fields
// and a higher generation. Most do: what was valid then is valid now.
func sameMetadata(a, b metav1.Object) bool {
	return a.GetResourceVersion() != "" && a.GetName() == b.GetName() && a.GetNamespace() == b.GetNamespace() && a.GetUID() == b.GetUID() &&
		a.GetGenerateName() == b.GetGenerateName() && a.GetSelfLink() == b.GetSelfLink() && a.GetGeneration() >= b.GetGeneration() &&
		a.GetCreationTimestamp().Time.Equal(b.GetCreationTimestamp().Time) && a.GetDeletionTimestamp().Equal(b.GetDeletionTimestamp()) &&
		maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations()) &&
		slices.Equal(a.GetFinalizers(), b.GetFinalizers()) && slices.EqualFunc(a.GetOwnerReferences(), b.GetOwnerReferences(), sameOwner) &&
		ptr.Equal(a.GetDeletionGracePeriodSeconds(), b.GetDeletionGracePeriodSeconds())
}

func sameOwner(a, b metav1.OwnerReference) bool {
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID &&
		ptr.Equal(a.Controller, b.Controller) && ptr.Equal(a.BlockOwnerDeletion, b.BlockOwnerDeletion)
}

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
