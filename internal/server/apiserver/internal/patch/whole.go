package patch

import (
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/server/apiserver/internal/body"
	"github.com/millrace/millrace/internal/server/resource"
)

// Whole patches the encoded object as a whole.
func Whole(face *resource.Face, kind types.PatchType, old resource.Object, text []byte, change Func) (into runtime.Object, after []byte, strict []error, err error) {
	before, err := json.Marshal(shown(face, old))
	if err != nil {
		return nil, nil, nil, apierrors.NewInternalError(err)
	}
	if after, err = change(before); err != nil {
		return nil, nil, nil, err
	}
	into = face.New()
	if strict, err = body.Unmarshal(after, into); err != nil {
		return nil, nil, nil, Invalid(kind, text, after, fault(kind, after, err, face.New))
	}
	if found := into.GetObjectKind().GroupVersionKind(); found != face.GroupVersionKind && kind != types.StrategicMergePatchType && found.Kind != "" && found.Version != "" {
		return nil, nil, nil, Invalid(kind, text, after, body.Misfit(found, face.GroupVersionKind))
	}
	into.GetObjectKind().SetGroupVersionKind(face.GroupVersionKind)
	return into, after, strict, nil
}

// shown converts an object to the request's version.
func shown(face *resource.Face, o resource.Object) runtime.Object {
	var shown runtime.Object = o
	if face.From != nil {
		shown = face.From(o)
	}
	shown.GetObjectKind().SetGroupVersionKind(face.GroupVersionKind)
	return shown
}
