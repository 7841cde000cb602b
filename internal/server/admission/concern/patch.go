package concern

import (
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/server/admission/attributes"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

// Patched is the new object of a version with a JSON patch, as JSON.
func Patched(v *attributes.Version, patch jsonpatch.Patch) ([]byte, error) {
	text, err := attributes.JSON(v.New)
	if err != nil {
		return nil, err
	}
	return patch.Apply(text)
}

// Put puts an object in the place of the new one, unless it is the same.
func Put(v *attributes.Version, o runtime.Object) (changed bool, err error) {
	if tree.Alike(v.New, o) {
		return false, nil
	}
	if err := v.Replace(o); err != nil {
		return false, err
	}
	return true, nil
}
