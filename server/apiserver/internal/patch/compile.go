package patch

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/millrace/millrace/server/resource"
)

// Func makes a new JSON text of an old one.
type Func func(old []byte) ([]byte, error)

// mostOperations bounds a JSON patch.
const mostOperations = 10_000

// Compile makes a function of the text of a patch. The model is an empty object of what is to be patched.
func Compile(kind types.PatchType, text []byte, model func() runtime.Object) (Func, error) {
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
	return strategicPatch(text, model)
}

// A JSON patch may not copy more than that: each copy can double what is there, and ten thousand of them fit in a body.
// The library has one setting for the whole process, which is made with the first JSON patch.
var limitCopies = sync.OnceFunc(func() { jsonpatch.AccumulatedCopySizeLimit = 3 << 20 })

type operation struct {
	Op   string `json:"op"`
	Path string `json:"path"`
}

func jsonPatch(text []byte) (Func, error) {
	limitCopies()
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

func strategicPatch(text []byte, model func() runtime.Object) (Func, error) {
	patch := map[string]any{}
	if err := utiljson.Unmarshal(text, &patch); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(model())
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
