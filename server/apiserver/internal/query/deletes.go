package query

import (
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// FillDelete reads options from a query.
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

func CheckDelete(o *metav1.DeleteOptions) error {
	o.IgnoreStoreReadErrorWithClusterBreakingPotential = nil // nothing is stored that cannot be read
	if errs := validation.ValidateDeleteOptions(o); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	return nil
}
