package apiserver

import (
	"context"
	"mime"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/apiserver/internal/body"
	"github.com/millrace/millrace/internal/server/apiserver/internal/patch"
	"github.com/millrace/millrace/internal/server/apiserver/internal/query"
	"github.com/millrace/millrace/internal/server/apiserver/internal/status"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// Applier merges the configuration of a server-side apply into an object.
type Applier interface {
	Apply(face *resource.Face, view string, live resource.Object, configuration runtime.Object, manager string, force bool) (resource.Object, error)
}

func (c *call) patch(view string) error {
	kind, err := c.patchType()
	if err != nil {
		return err
	}
	o, err := query.ParseWrite(c.Request.URL.Query(), "PatchOptions")
	if err != nil {
		return err
	}
	if err := checkPatchOptions(kind, o, c.Request.URL.Query().Has("force")); err != nil {
		return err
	}
	text, err := c.s.bodies.ReadBytes(c.Writer, c.Request)
	if err != nil {
		return err
	}
	c.record.Request(text)
	opt := registry.UpdateOptions{WriteOptions: c.write(o), View: view}
	var updater registry.Updater
	if kind == types.ApplyYAMLPatchType {
		updater, err = c.applyUpdater(text, o, view)
		opt.Tracked, opt.MayCreate = true, view == ""
	} else {
		updater = c.patchUpdater(kind, text, o)
	}
	if err != nil {
		return err
	}
	stored, created, err := c.storage.Update(c.ctx(o.DryRun), c.t.Namespace, c.t.Name, updater, opt)
	if err != nil {
		return err
	}
	return c.SendStored(codeFor(created), stored)
}

const customPatches = "the body of the request was in an unknown format - accepted media types include: " +
	"application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"

func (c *call) patchType() (types.PatchType, error) {
	name, _, err := mime.ParseMediaType(c.Request.Header.Get("Content-Type"))
	if err == nil {
		switch t := types.PatchType(name); {
		case t == types.StrategicMergePatchType && c.Kind.Custom:
			return "", status.UnsupportedMediaType(customPatches)
		case t == types.JSONPatchType, t == types.MergePatchType, t == types.StrategicMergePatchType, t == types.ApplyYAMLPatchType && c.s.o.Apply != nil:
			return t, nil
		}
	}
	e := apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", c.Kind.GroupResource(), c.t.Name, "", 0, false)
	e.ErrStatus.Message, e.ErrStatus.Details = "415: Unsupported Media Type", &metav1.StatusDetails{}
	return "", e
}

func checkPatchOptions(kind types.PatchType, o query.Write, forceGiven bool) error {
	var errs field.ErrorList
	if kind == types.ApplyYAMLPatchType {
		if o.Manager == "" {
			errs = append(errs, field.Required(field.NewPath("fieldManager"), "is required for apply patch"))
		}
	} else if forceGiven {
		errs = append(errs, field.Forbidden(field.NewPath("force"), "may not be specified for non-apply patch"))
	}
	return query.InvalidOptions("PatchOptions", errs)
}

// patchUpdater returns an updater that applies a patch. Errors in the patch are reported only if the object exists.
func (c *call) patchUpdater(kind types.PatchType, text []byte, o query.Write) registry.Updater {
	change, err := patch.Compile(kind, text, c.Face.New)
	if err != nil {
		return func(context.Context, resource.Object) (resource.Object, error) { return nil, err }
	}
	findings := patch.Findings(kind, text)
	var part patch.Part
	var tree patch.Tree
	if len(findings) == 0 {
		part = c.part(kind, text, change)
		tree = c.tree(kind, text)
	}
	warned := false
	finish := func(obj resource.Object) (resource.Object, error) {
		c.oneOfEachOwner(obj, " after mutating admission happens", !warned)
		warned = true
		return obj, c.checkNames(obj)
	}
	return func(_ context.Context, old resource.Object) (resource.Object, error) {
		if obj, ok := part.Apply(old); ok {
			c.Kind.Default(obj)
			return finish(obj)
		}
		if obj, ok := tree.Apply(c.Face, old); ok {
			if strict, err := body.Clean(c.Kind, obj, nil); err == nil && len(strict) == 0 {
				return finish(c.toKind(obj))
			}
		}
		into, after, strict, err := patch.Whole(c.Face, kind, old, text, change)
		if err != nil {
			return nil, err
		}
		if strict, err = body.Clean(c.Kind, into, append(slices.Clone(findings), strict...)); err != nil {
			return nil, patch.Invalid(kind, text, after, err.Error())
		}
		switch {
		case len(strict) > 0 && o.Validation == metav1.FieldValidationStrict:
			return nil, patch.Invalid(kind, text, after, body.StrictText(strict))
		case !warned:
			if err := body.Report(strict, o.Validation, c.Face.GroupVersionKind, c.warn); err != nil {
				return nil, err
			}
		}
		return finish(c.toKind(into))
	}
}

// tree returns the fast path of a patch of a tree, or nil.
func (c *call) tree(kind types.PatchType, text []byte) patch.Tree {
	if !c.Native() || c.StoredProto() {
		return nil
	}
	return patch.TreeOf(kind, text)
}

// part returns the fast path of a patch, if it has one.
func (c *call) part(kind types.PatchType, text []byte, change patch.Func) patch.Part {
	if !c.Native() || !c.StoredProto() {
		return patch.Part{}
	}
	return patch.PartOf(c.Kind, kind, text, change)
}
