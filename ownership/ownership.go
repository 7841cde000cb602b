// Package ownership keeps track of who set which fields of an object (metadata.managedFields), and merges what server-side
// apply is given into what is there.
//
// The bookkeeping itself is apimachinery's; this package gives it the kinds of a catalogue. The schema of the built-in
// types is parsed when it is first needed: that takes some tens of milliseconds, and a server that only reads never
// needs it.
package ownership

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/millrace/millrace/resource"
)

// Owners tracks the fields of all kinds. The zero value is ready.
type Owners struct {
	mu       sync.Mutex // guards managers
	managers map[place]*managedfields.FieldManager
}

// place is where an object is changed: a face of a kind, and a subresource of it.
type place struct {
	face *resource.Face
	view string
}

// types is the schema of the built-in kinds.
var types = sync.OnceValue(func() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(scheme.Scheme)
})

// Track notes in obj what manager changed between old and obj, as an update. old is nil for a create.
func (w *Owners) Track(face *resource.Face, view string, old, obj resource.Object, manager string) error {
	m, err := w.manager(face, view)
	if err != nil {
		return err
	}
	live := face.New()
	if old != nil {
		live = as(face, old)
	}
	live.GetObjectKind().SetGroupVersionKind(face.GroupVersionKind)
	now := as(face, obj)
	tracked := m.UpdateNoErrors(live, now, manager)
	obj.SetManagedFields(tracked.(resource.Object).GetManagedFields())
	return nil
}

// as turns an object of a kind into its face.
func as(face *resource.Face, o resource.Object) runtime.Object {
	if face.From == nil {
		o.GetObjectKind().SetGroupVersionKind(face.GroupVersionKind)
		return o
	}
	out := face.From(o)
	out.GetObjectKind().SetGroupVersionKind(face.GroupVersionKind)
	return out
}

// Apply merges a configuration into live on behalf of manager. live is nil if there is no object yet. A conflict is an API
// status that names the fields and their owners.
func (w *Owners) Apply(face *resource.Face, view string, live resource.Object, configuration runtime.Object, manager string, force bool) (resource.Object, error) {
	m, err := w.manager(face, view)
	if err != nil {
		return nil, err
	}
	base := face.New()
	base.GetObjectKind().SetGroupVersionKind(face.GroupVersionKind)
	if live != nil {
		base = as(face, live.DeepCopyObject().(resource.Object))
	}
	merged, err := m.Apply(base, configuration, manager, force)
	if err != nil {
		return nil, err
	}
	if face.To != nil {
		return face.To(merged), nil
	}
	return merged.(resource.Object), nil
}

func (w *Owners) manager(face *resource.Face, view string) (*managedfields.FieldManager, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := place{face, view}
	if m, ok := w.managers[at]; ok {
		return m, nil
	}
	f := faces{face.Of}
	m, err := managedfields.NewDefaultFieldManager(types(), f, f, f, face.GroupVersionKind, face.GroupVersion(), view, resets(face.Of, view))
	if err != nil {
		return nil, fmt.Errorf("track fields of %v: %w", face.GroupVersionKind, err)
	}
	if w.managers == nil {
		w.managers = map[place]*managedfields.FieldManager{}
	}
	w.managers[at] = m
	return m, nil
}

// resets are the fields that a view cannot set, and whose values therefore do not make their sender an owner.
func resets(kind *resource.Kind, view string) map[fieldpath.APIVersion]fieldpath.Filter {
	if _, has := kind.Views["status"]; !has {
		return nil
	}
	set := fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	if view == "status" {
		set = fieldpath.NewSet(fieldpath.MakePathOrDie("spec"))
	}
	all := map[fieldpath.APIVersion]*fieldpath.Set{}
	for _, f := range kind.Faces {
		all[fieldpath.APIVersion(f.GroupVersion().String())] = set
	}
	return fieldpath.NewExcludeFilterSetMap(all)
}

// faces converts between the faces of a kind, in the words of apimachinery.
type faces struct{ kind *resource.Kind }

// New implements runtime.ObjectCreater.
func (f faces) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	for _, face := range f.kind.Faces {
		if face.GroupVersionKind == gvk {
			return face.New(), nil
		}
	}
	return nil, runtime.NewNotRegisteredErrForKind("catalogue", gvk)
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
