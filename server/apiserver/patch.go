package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"reflect"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
)

// Applier merges what server-side apply is given into what is there.
type Applier interface {
	Apply(face *resource.Face, view string, live resource.Object, configuration runtime.Object, manager string, force bool) (resource.Object, error)
}

// patched makes a new JSON text of an old one.
type patched func(old []byte) ([]byte, error)

func (c *call) patch(view string) error {
	kind, err := c.patchType()
	if err != nil {
		return err
	}
	o, err := parseWriteOptions(c.r.URL.Query(), "PatchOptions")
	if err != nil {
		return err
	}
	if err := checkPatchOptions(kind, o, c.r.URL.Query().Has("force")); err != nil {
		return err
	}
	text, err := c.s.readBytes(c.w, c.r)
	if err != nil {
		return err
	}
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
	stored, created, err := c.storage.Update(c.ctx(o.dryRun), c.t.Namespace, c.t.Name, updater, opt)
	if err != nil {
		return err
	}
	return c.sendStored(codeFor(created), stored)
}

func (c *call) patchType() (types.PatchType, error) {
	name, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err == nil {
		switch t := types.PatchType(name); t {
		case types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType:
			return t, nil
		case types.ApplyYAMLPatchType:
			if c.s.o.Apply != nil {
				return t, nil
			}
		}
	}
	e := apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", c.kind.GroupResource(), c.t.Name, "", 0, false)
	e.ErrStatus.Message, e.ErrStatus.Details = "415: Unsupported Media Type", &metav1.StatusDetails{}
	return "", e
}

func checkPatchOptions(kind types.PatchType, o writeOptions, forceGiven bool) error {
	var errs field.ErrorList
	if kind == types.ApplyYAMLPatchType {
		if o.manager == "" {
			errs = append(errs, field.Required(field.NewPath("fieldManager"), "is required for apply patch"))
		}
	} else if forceGiven {
		errs = append(errs, field.Forbidden(field.NewPath("force"), "may not be specified for non-apply patch"))
	}
	return invalidOptions("PatchOptions", errs)
}

// patchUpdater makes an updater of a patch. What is wrong with the patch is said when there is something to patch.
func (c *call) patchUpdater(kind types.PatchType, text []byte, o writeOptions) registry.Updater {
	change, err := c.patchFunc(kind, text)
	if err != nil {
		return func(context.Context, resource.Object) (resource.Object, error) { return nil, err }
	}
	findings := patchFindings(kind, text)
	var part part
	if len(findings) == 0 {
		part = c.partOf(kind, text, change)
	}
	warned := false
	finish := func(obj resource.Object) (resource.Object, error) {
		c.oneOfEachOwner(obj, " after mutating admission happens", !warned)
		warned = true
		return obj, c.checkNames(obj)
	}
	return func(_ context.Context, old resource.Object) (resource.Object, error) {
		if obj, ok := part.patch(old); ok {
			c.kind.Default(obj)
			return finish(obj)
		}
		into, after, strict, err := c.patchWhole(kind, old, text, change)
		if err != nil {
			return nil, err
		}
		strict = append(slices.Clone(findings), strict...)
		switch {
		case len(strict) > 0 && o.validation == metav1.FieldValidationStrict:
			return nil, invalidPatch(kind, text, after, strictText(strict))
		case !warned:
			if err := applyValidation(strict, o, c.face.GroupVersionKind, c.warn); err != nil {
				return nil, err
			}
		}
		return finish(c.hub(into))
	}
}

// patchWhole takes the whole object through its text.
func (c *call) patchWhole(kind types.PatchType, old resource.Object, text []byte, change patched) (into runtime.Object, after []byte, strict []error, err error) {
	before, err := json.Marshal(c.faceObject(old))
	if err != nil {
		return nil, nil, nil, apierrors.NewInternalError(err)
	}
	if after, err = change(before); err != nil {
		return nil, nil, nil, err
	}
	into = c.face.New()
	if strict, err = unmarshal(after, into); err != nil {
		return nil, nil, nil, invalidPatch(kind, text, after, c.patchFault(kind, after, err))
	}
	if found := into.GetObjectKind().GroupVersionKind(); found != c.face.GroupVersionKind && kind != types.StrategicMergePatchType && found.Kind != "" && found.Version != "" {
		return nil, nil, nil, invalidPatch(kind, text, after, misfit(found, c.face.GroupVersionKind))
	}
	into.GetObjectKind().SetGroupVersionKind(c.face.GroupVersionKind)
	return into, after, strict, nil
}

func (c *call) faceObject(o resource.Object) runtime.Object {
	face := c.faceOf(o)
	face.GetObjectKind().SetGroupVersionKind(c.face.GroupVersionKind)
	return face
}

// mostOperations bounds a JSON patch.
const mostOperations = 10_000

func (c *call) patchFunc(kind types.PatchType, text []byte) (patched, error) {
	switch kind {
	case types.JSONPatchType:
		return jsonPatch(text)
	case types.MergePatchType:
		var check map[string]any
		if err := json.Unmarshal(text, &check); err != nil {
			return nil, apierrors.NewBadRequest("error decoding patch: " + err.Error())
		}
		return func(old []byte) ([]byte, error) {
			after, err := jsonpatch.MergePatch(old, text)
			if err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
			return after, nil
		}, nil
	}
	return c.strategicPatch(text)
}

// A JSON patch may not copy more than that: each copy can double what is there, and ten thousand of them fit in a body.
// The library has this one setting for the whole process.
func init() { jsonpatch.AccumulatedCopySizeLimit = 3 << 20 }

type operation struct {
	Op   string `json:"op"`
	Path string `json:"path"`
}

func jsonPatch(text []byte) (patched, error) {
	var operations []operation
	if err := json.Unmarshal(text, &operations); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field == "" {
			list := ""
			if wrong.Type.Kind() == reflect.Slice {
				list = "[]"
			}
			return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: json: cannot unmarshal %s into Go value of type %shandlers.jsonPatchOp", wrong.Value, list))
		}
		return nil, apierrors.NewBadRequest("error decoding patch: " + err.Error())
	}
	if len(operations) > mostOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(
			fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", mostOperations, len(operations)))
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return func(old []byte) ([]byte, error) {
		after, err := patch.Apply(old)
		var tooMuch *jsonpatch.AccumulatedCopySizeError
		switch {
		case errors.As(err, &tooMuch):
			return nil, apierrors.NewRequestEntityTooLargeError(err.Error())
		case err != nil:
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", resource.NoResource, "", err.Error(), 0, false)
		}
		return after, nil
	}, nil
}

func (c *call) strategicPatch(text []byte) (patched, error) {
	patch := map[string]any{}
	if err := utiljson.Unmarshal(text, &patch); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(c.face.New())
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return func(old []byte) ([]byte, error) {
		document := map[string]any{}
		if err := utiljson.Unmarshal(old, &document); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		fresh := map[string]any{}
		if err := utiljson.Unmarshal(text, &fresh); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		merged, err := strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(document, fresh, schema)
		switch {
		case err == nil:
			return json.Marshal(merged)
		case mergepatch.IsPreconditionFailed(err):
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", resource.NoResource, "", err.Error(), 0, false)
		}
		return nil, apierrors.NewBadRequest(err.Error())
	}, nil
}
