package query

import (
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// FillDelete sets options from a query.
func FillDelete(q url.Values, o *metav1.DeleteOptions) error {
	var err error
	if o.GracePeriodSeconds, err = integer(q, "gracePeriodSeconds"); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	o.DryRun = q["dryRun"]
	if q.Has("orphanDependents") {
		v := Bool(q, "orphanDependents")
		o.OrphanDependents = &v //nolint:staticcheck // the old option is still part of the API
	}
	if q.Has("propagationPolicy") {
		p := metav1.DeletionPropagation(q.Get("propagationPolicy"))
		o.PropagationPolicy = &p
	}
	if uid := types.UID(q.Get("uid")); uid != "" {
		o.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	return nil
}

// CheckDelete validates the options of a delete.
func CheckDelete(o *metav1.DeleteOptions) error {
	if errs := validation.ValidateDeleteOptions(o); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	return nil
}

// CheckDeleteCollection validates what is special in the options of a deletecollection; CheckDelete validates the rest.
func CheckDeleteCollection(o *metav1.DeleteOptions) error {
	if !IgnoresReadErrors(o) {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", field.ErrorList{field.Invalid(
		field.NewPath("ignoreStoreReadErrorWithClusterBreakingPotential"), true, "is not allowed with DELETECOLLECTION, try again after removing the option")})
}

// IgnoresReadErrors reports whether the delete may be of an object that cannot be read.
func IgnoresReadErrors(o *metav1.DeleteOptions) bool {
	return o.IgnoreStoreReadErrorWithClusterBreakingPotential != nil && *o.IgnoreStoreReadErrorWithClusterBreakingPotential
}
