package apiserver

import (
	"context"
	"encoding/json"
	"net/http"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/apiserver/internal/body"
	"github.com/millrace/millrace/internal/server/apiserver/internal/patch"
	"github.com/millrace/millrace/internal/server/apiserver/internal/query"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// setScale changes the number of replicas through the scale subresource.
func (c *call) setScale(gvk schema.GroupVersionKind) error {
	o, err := query.ParseWrite(c.Request.URL.Query(), map[string]string{"update": "UpdateOptions", "patch": "PatchOptions"}[c.verb])
	if err != nil {
		return err
	}
	if c.verb == "patch" {
		if kind, err := c.patchType(); err == nil && kind == types.ApplyYAMLPatchType {
			return c.applyScale(gvk, o)
		}
	}
	change, err := c.scaleChange(gvk, o)
	if err != nil {
		return err
	}
	updater := func(_ context.Context, old resource.Object) (resource.Object, error) {
		scale := c.Kind.Scale.Get(old)
		if err := change(scale); err != nil {
			return nil, err
		}
		if scale.Spec.Replicas < 0 && !c.Kind.Scale.Checked {
			return nil, apierrors.NewInvalid(gvk.GroupKind(), scale.Name, field.ErrorList{
				field.Invalid(field.NewPath("spec", "replicas"), scale.Spec.Replicas, "must be greater than or equal to 0")})
		}
		obj := old.DeepCopyObject().(resource.Object)
		obj.SetResourceVersion(scale.ResourceVersion)
		if scale.UID != "" {
			obj.SetUID(scale.UID)
		}
		c.Kind.Scale.Set(obj, scale.Spec.Replicas)
		return obj, nil
	}
	stored, _, err := c.storage.Update(c.ctx(o.DryRun), c.t.Namespace, c.t.Name, updater,
		registry.UpdateOptions{WriteOptions: c.write(o), View: "scale"})
	if err != nil {
		return err
	}
	return c.Send(http.StatusOK, c.Kind.Scale.Get(stored.Object), gvk)
}

func (c *call) scaleChange(gvk schema.GroupVersionKind, o query.Write) (func(*autoscalingv1.Scale) error, error) {
	if c.verb == "update" {
		b, err := c.s.bodies.Read(c.Writer, c.Request)
		if err != nil {
			return nil, err
		}
		given := &autoscalingv1.Scale{}
		strict, err := b.DecodeInto(given, gvk)
		if err != nil {
			return nil, err
		}
		if err := c.checkNames(given); err != nil {
			return nil, err
		}
		return func(s *autoscalingv1.Scale) error {
			version := s.ResourceVersion
			*s = *given.DeepCopy()
			if s.ResourceVersion == "" {
				s.ResourceVersion = version
			}
			return nil
		}, body.Report(strict, o.Validation, gvk, c.warn)
	}
	kind, err := c.patchType()
	if err != nil {
		return nil, err
	}
	text, err := c.s.bodies.ReadBytes(c.Writer, c.Request)
	if err != nil {
		return nil, err
	}
	return c.scalePatch(kind, text)
}

func (c *call) scalePatch(kind types.PatchType, text []byte) (func(*autoscalingv1.Scale) error, error) {
	var apply patch.Func
	var err error
	switch kind {
	case types.StrategicMergePatchType:
		apply = func(old []byte) ([]byte, error) {
			after, err := strategicpatch.StrategicMergePatch(old, text, autoscalingv1.Scale{})
			if err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
			return after, nil
		}
	default:
		if apply, err = patch.Compile(kind, text, func() runtime.Object { return &autoscalingv1.Scale{} }); err != nil {
			return nil, err
		}
	}
	return func(s *autoscalingv1.Scale) error {
		before, err := json.Marshal(s)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		after, err := apply(before)
		if err != nil {
			return err
		}
		*s = autoscalingv1.Scale{}
		if err := json.Unmarshal(after, s); err != nil {
			return patch.Invalid(kind, text, after, err.Error())
		}
		return nil
	}, nil
}
