package apiserver

import (
	"fmt"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// decodeDeleteOptions reads a body; clients name the group and version of the object, or those of the options.
func decodeDeleteOptions(b body, o *metav1.DeleteOptions, face schema.GroupVersion) error {
	var err error
	for _, gv := range []schema.GroupVersion{{Version: "v1"}, face, {Group: metav1.GroupName, Version: "v1"}} {
		if _, err = b.decodeInto(o, gv.WithKind("DeleteOptions")); err == nil {
			return nil
		}
	}
	return err
}

func deleteOptionsFrom(q url.Values, o *metav1.DeleteOptions) error {
	var err error
	if o.GracePeriodSeconds, err = integer(q, "gracePeriodSeconds"); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if q.Has("orphanDependents") {
		v := boolean(q, "orphanDependents")
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

func checkDeleteOptions(o *metav1.DeleteOptions) error {
	if errs := validation.ValidateDeleteOptions(o); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	if o.GracePeriodSeconds != nil && *o.GracePeriodSeconds < 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("gracePeriodSeconds %d is negative", *o.GracePeriodSeconds))
	}
	return nil
}
