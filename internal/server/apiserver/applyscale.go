package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/apiserver/internal/body"
	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/internal/server/apiserver/internal/query"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// applyScale applies a Scale. It is converted to a configuration of the object itself that contains only the number of
// replicas, so that this number gets a field manager like any other field.
func (c *call) applyScale(gvk schema.GroupVersionKind, o query.Write) error {
	if err := checkPatchOptions(types.ApplyYAMLPatchType, o, c.Request.URL.Query().Has("force")); err != nil {
		return err
	}
	text, err := c.s.bodies.ReadBytes(c.Writer, c.Request)
	if err != nil {
		return err
	}
	given := &autoscalingv1.Scale{}
	strict, err := body.Body{Bytes: text, Media: negotiate.YAML}.DecodeInto(given, gvk)
	if err != nil {
		return err
	}
	if err := body.Report(strict, o.Validation, gvk, c.warn); err != nil {
		return err
	}
	switch {
	case given.Name != "" && given.Name != c.t.Name:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", given.Name, c.t.Name))
	case given.Spec.Replicas < 0:
		return apierrors.NewInvalid(gvk.GroupKind(), c.t.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), given.Spec.Replicas, "must be greater than or equal to 0")})
	}
	updater := func(_ context.Context, old resource.Object) (resource.Object, error) {
		merged, err := c.s.o.Apply.Apply(c.Face, "scale", old, c.scaleConfiguration(given), o.Manager, o.Force)
		if err != nil {
			return nil, scaleConflict(applyError(err), c.Face.GroupVersion(), gvk.GroupVersion())
		}
		merged.GetObjectKind().SetGroupVersionKind(c.Kind.GroupVersionKind())
		if given.ResourceVersion != "" {
			merged.SetResourceVersion(given.ResourceVersion)
		}
		return merged, nil
	}
	stored, _, err := c.storage.Update(c.ctx(o.DryRun), c.t.Namespace, c.t.Name, updater,
		registry.UpdateOptions{WriteOptions: c.write(o), View: "scale", Tracked: true})
	if err != nil {
		return err
	}
	return c.Send(http.StatusOK, c.Kind.Scale.Get(stored.Object), gvk)
}

// scaleConflict replaces the object's version by that of the Scale in the message of a conflict.
func scaleConflict(err error, object, scale schema.GroupVersion) error {
	status, ok := err.(*apierrors.StatusError)
	if !ok || !apierrors.IsConflict(err) {
		return err
	}
	status = &apierrors.StatusError{ErrStatus: *status.ErrStatus.DeepCopy()}
	inScale := strings.NewReplacer(`subresource "scale" using `+object.String(), `subresource "scale" using `+scale.String())
	status.ErrStatus.Message = inScale.Replace(status.ErrStatus.Message)
	for i := range status.ErrStatus.Details.Causes {
		status.ErrStatus.Details.Causes[i].Message = inScale.Replace(status.ErrStatus.Details.Causes[i].Message)
	}
	return status
}

func (c *call) scaleConfiguration(given *autoscalingv1.Scale) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(given.Spec.Replicas)}}}
	u.SetGroupVersionKind(c.Face.GroupVersionKind)
	u.SetName(c.t.Name)
	u.SetNamespace(c.t.Namespace)
	return u
}
