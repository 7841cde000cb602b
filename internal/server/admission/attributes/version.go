package attributes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/millrace/millrace/internal/server/admission/match"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

// Version is a request in the version of one resource.
type Version struct {
	*Request
	// As is the resource, and AsKind the kind of the objects.
	As     schema.GroupVersionResource
	AsKind schema.GroupVersionKind
	face   *resource.Face
	// New and Before are the objects; nil if there is no such.
	New, Before runtime.Object
}

// Version shows the request as one for another resource by which its objects are served.
func (r *Request) Version(as schema.GroupVersionResource) (*Version, error) {
	if v, ok := r.versions[as]; ok {
		return v, nil
	}
	v := &Version{Request: r, As: as}
	for _, f := range match.Faces(r.cluster.Registry.Catalogue, r.Kind) {
		if f.GroupVersionResource() == as {
			v.face = f
		}
	}
	if v.face == nil {
		return nil, fmt.Errorf("unable to convert to %v: unknown kind", as)
	}
	v.AsKind = kindAt(r.Change, v.face)
	var err error
	if v.Before, err = v.show(r.Old); err != nil {
		return nil, err
	}
	if err := v.renew(); err != nil {
		return nil, err
	}
	if r.versions == nil {
		r.versions = map[schema.GroupVersionResource]*Version{}
	}
	r.versions[as] = v
	return v, nil
}

// Face is where the objects are served in this version.
func (v *Version) Face() *resource.Face { return v.face }

// renew shows the new object as it is now.
func (v *Version) renew() (err error) {
	if v.Body != nil {
		v.Body.GetObjectKind().SetGroupVersionKind(v.BodyKind)
		v.New = v.Body
		return nil
	}
	v.New, err = v.show(v.Object)
	return err
}

// show makes an object of the version, which may share memory with the given one.
func (v *Version) show(o resource.Object) (runtime.Object, error) {
	var out runtime.Object
	switch {
	case o == nil:
		return nil, nil
	case v.View == "scale" && v.Kind.Scale != nil:
		return v.Kind.Scale.Get(o), nil
	case v.face.Of != v.Kind:
		converted, err := v.convert(o, v.Kind, v.face.Of)
		if err != nil {
			return nil, err
		}
		out = converted
	case v.face.From != nil:
		out = v.face.From(o)
	default:
		out = o
	}
	out.GetObjectKind().SetGroupVersionKind(v.AsKind)
	return out, nil
}

// convert makes an object of one version of a custom kind into one of another.
func (v *Version) convert(o resource.Object, from, to *resource.Kind) (resource.Object, error) {
	b, err := from.Encode(v.ctx, o.DeepCopyObject().(resource.Object))
	if err != nil {
		return nil, err
	}
	return to.Decode(v.ctx, b, o.GetResourceVersion())
}

// JSON is an object of the version as JSON; null if there is none.
func JSON(o runtime.Object) ([]byte, error) {
	if o == nil {
		return []byte("null"), nil
	}
	b, err := json.Marshal(o)
	return bytes.TrimSuffix(b, []byte("\n")), err
}

// Read makes an object of the version of JSON.
func (v *Version) Read(text []byte) (runtime.Object, error) {
	return v.read(text, func(text []byte, into any) error { return kjson.UnmarshalCaseSensitivePreserveInts(text, into) })
}

// ReadStrict makes an object of the version of JSON, and refuses fields that its type does not have.
func (v *Version) ReadStrict(text []byte) (runtime.Object, error) {
	return v.read(text, func(text []byte, into any) error {
		strict, err := kjson.UnmarshalStrict(text, into)
		if err == nil && len(strict) > 0 {
			err = runtime.NewStrictDecodingError(strict)
		}
		return err
	})
}

func (v *Version) read(text []byte, unmarshal func(text []byte, into any) error) (runtime.Object, error) {
	into := v.model()
	var model any = into
	if u := tree.Of(into); u != nil {
		model = &u.Object
	}
	if err := unmarshal(text, model); err != nil {
		return nil, err
	}
	if found := into.GetObjectKind().GroupVersionKind(); found != v.AsKind {
		return nil, fmt.Errorf("the object is of the kind %v and cannot become one of %v", v.AsKind, found)
	}
	return into, nil
}

func (v *Version) model() runtime.Object {
	switch {
	case v.Body != nil:
		return emptyLike(v.Body)
	case v.View == "scale":
		return &autoscalingv1.Scale{}
	}
	return v.face.New()
}

var errNothing = errors.New("there is no object that could be replaced")

// Replace puts another object of the version in the place of the new one. Defaults are filled in.
func (v *Version) Replace(o runtime.Object) error {
	switch {
	case v.Body != nil:
		v.Body = o
	case v.Object == nil:
		return errNothing
	case v.View == "scale":
		scaled := v.Object.DeepCopyObject().(resource.Object)
		v.Kind.Scale.Set(scaled, o.(*autoscalingv1.Scale).Spec.Replicas)
		v.Object = scaled
	default:
		replaced, err := v.hub(o)
		if err != nil {
			return err
		}
		v.Object = replaced
	}
	if err := v.renew(); err != nil {
		return err
	}
	for as, other := range v.versions {
		if other != v {
			delete(v.versions, as) // they show the object as it was
		}
	}
	return nil
}

// hub makes the kind itself of an object of the version.
func (v *Version) hub(o runtime.Object) (out resource.Object, err error) {
	switch {
	case v.face.Of != v.Kind:
		given := o.(resource.Object)
		if err = tidy(v.face.Of, given); err != nil {
			return nil, err
		}
		if out, err = v.convert(given, v.face.Of, v.Kind); err != nil {
			return nil, err
		}
	case v.face.To != nil:
		out = v.face.To(o)
	default:
		out = o.(resource.Object)
	}
	out.GetObjectKind().SetGroupVersionKind(v.Kind.GroupVersionKind())
	return out, tidy(v.Kind, out)
}

// tidy drops what the kind does not know, and fills in defaults.
func tidy(k *resource.Kind, o resource.Object) error {
	if k.Clean != nil {
		if _, err := k.Clean(o); err != nil {
			return err
		}
	}
	k.Default(o)
	return nil
}

// emptyLike makes an empty object of the same type.
func emptyLike(o runtime.Object) runtime.Object {
	return reflect.New(reflect.TypeOf(o).Elem()).Interface().(runtime.Object)
}
