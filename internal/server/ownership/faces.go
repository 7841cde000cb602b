package ownership

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/resource"
)

// faces converts between the faces of a kind, in the words of apimachinery.
type faces struct{ kind *resource.Kind }

// New implements runtime.ObjectCreater.
func (f faces) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	if f.sibling(gvk) {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(gvk)
		return o, nil
	}
	for _, face := range f.kind.Faces {
		if face.GroupVersionKind == gvk {
			o := blank(face)
			o.GetObjectKind().SetGroupVersionKind(gvk)
			return o, nil
		}
	}
	return nil, runtime.NewNotRegisteredErrForKind("catalogue", gvk)
}

// sibling tells a version of a custom kind. Who owns fields of it is known by the names that they have there.
func (f faces) sibling(gvk schema.GroupVersionKind) bool {
	return f.kind.Custom && gvk.GroupKind() == f.kind.GroupVersionKind().GroupKind()
}

// relabel shows an object in another version, where its fields have the same names.
func (f faces) relabel(u *unstructured.Unstructured, target runtime.GroupVersioner) (runtime.Object, error) {
	gvk, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{u.GroupVersionKind()})
	if !ok || !f.sibling(gvk) {
		return nil, runtime.NewNotRegisteredErrForTarget("catalogue", f.kind.GoType(), target)
	}
	if gvk == u.GroupVersionKind() {
		return u, nil
	}
	u = u.DeepCopy()
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// Default implements runtime.ObjectDefaulter.
func (f faces) Default(o runtime.Object) {
	if obj, ok := o.(resource.Object); ok && o.GetObjectKind().GroupVersionKind() == f.kind.GroupVersionKind() {
		f.kind.Default(obj)
	}
}

// Convert implements runtime.ObjectConvertor; nobody calls it.
func (faces) Convert(in, out, context any) error {
	return fmt.Errorf("converting %T to %T is not supported", in, out)
}

// ConvertFieldLabel implements runtime.ObjectConvertor.
func (faces) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// ConvertToVersion implements runtime.ObjectConvertor.
func (f faces) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	from := in.GetObjectKind().GroupVersionKind()
	if u, ok := in.(*unstructured.Unstructured); ok && f.sibling(from) {
		return f.relabel(u, target)
	}
	for _, face := range f.kind.Faces {
		gvk, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{face.GroupVersionKind})
		if !ok || gvk != face.GroupVersionKind {
			continue
		}
		return f.convert(in, from, face)
	}
	return nil, runtime.NewNotRegisteredErrForTarget("catalogue", f.kind.GoType(), target)
}

func (f faces) convert(in runtime.Object, from schema.GroupVersionKind, to *resource.Face) (runtime.Object, error) {
	if u, ok := in.(runtime.Unstructured); ok {
		source, err := f.New(from)
		if err != nil {
			return nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.UnstructuredContent(), source); err != nil {
			return nil, err
		}
		source.GetObjectKind().SetGroupVersionKind(from)
		in = source
	}
	if from == to.GroupVersionKind {
		return in, nil
	}
	hub := in
	for _, face := range f.kind.Faces {
		if face.GroupVersionKind == from && face.To != nil {
			hub = face.To(in)
		}
	}
	return as(to, hub.(resource.Object)), nil
}
