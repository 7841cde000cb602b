package patch

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	strictjson "sigs.k8s.io/json"

	"github.com/millrace/millrace/internal/server/apiserver/internal/body"
)

// Invalid returns the error for a patch whose result is not an object of the kind. The error shows the result or, for a
// strategic patch, the patch.
func Invalid(kind types.PatchType, text, after []byte, why string) error {
	shown := string(after)
	if kind == types.StrategicMergePatchType {
		patch := map[string]any{}
		if utiljson.Unmarshal(text, &patch) == nil {
			shown = fmt.Sprint(patch)
		}
	}
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), shown, why)})
}

// fault returns the reason why the result of a patch cannot be decoded. A strategic patch is decoded through a tree,
// whose decoder has other messages.
func fault(kind types.PatchType, after []byte, err error, model func() runtime.Object) string {
	tree := map[string]any{}
	if kind == types.StrategicMergePatchType && body.Harmless(after) && utiljson.Unmarshal(after, &tree) == nil {
		if fault := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, model()); fault != nil {
			return fault.Error()
		}
	}
	return err.Error()
}

// Findings returns duplicate fields in the text of a patch, and unknown fields in its operations.
func Findings(kind types.PatchType, text []byte) []error {
	if kind != types.JSONPatchType {
		found, _ := strictjson.UnmarshalStrict(text, &map[string]any{})
		return found
	}
	var operations []struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		From  string `json:"from"`
		Value any    `json:"value"`
	}
	found, _ := strictjson.UnmarshalStrict(text, &operations)
	for i := range found {
		found[i] = fmt.Errorf("json patch %w", found[i])
	}
	return found
}
