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

	"github.com/millrace/millrace/internal/server/resource"
)

// Func returns the patched JSON of an object.
type Func func(old []byte) ([]byte, error)

// maxOperations bounds a JSON patch.
const maxOperations = 10_000

// Compile makes a Func from a patch. model returns an empty object of the patched type.
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

// The copy operations of a JSON patch are limited to this: each can double the object, and a body has room for ten
// thousand of them. The limit is a global variable of the library, so it is set only when the first JSON patch is
// compiled.
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
	if len(operations) > maxOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(
			fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(operations)))
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
