// Package ownership keeps track of who set which fields of an object (metadata.managedFields), and merges what
// server-side apply is given into what is there.
//
// What is guaranteed: managed fields are those that apimachinery's library computes, whichever way they are computed
// here. Ordinary changes (creates and updates by clients that leave the managed fields alone, and what is applied again
// with other values) are compared as Go structs, by shapes that are made once for each type, or as trees, by the
// library's schema; everything else is the library's work.
//
// # What the second way wins
//
// The library alone would take several times as long as all the rest of a write. Its benchmarks (CreatePod, PodStatus,
// RenewLease, ApplyAgain) compare the two, on a busy machine where only the ratio of times says something:
//
//	a pod is created        22 allocations instead of 1,266, a thirtieth of the time
//	its status is written    8 instead of 4,084, a fortieth
//	a Lease is renewed       3 instead of 392, a fiftieth
//	a pod is applied again 195 instead of 3,830, a fifteenth
//
// Random tests compare the results of both. What is unusual sets odd, and then the library's result counts.
//
// # The library's schema
//
// The schema of the built-in types, which the library needs, is read when it is first needed. It is kept in a form that
// is read in a few milliseconds; the text that the library keeps takes a hundred. The shapes need a small part of it
// only, which is kept as a table.
package ownership

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

// Owners tracks the fields of all kinds. The zero value is ready.
type Owners struct {
	mu       sync.RWMutex // guards trackers
	trackers map[trackerKey]*tracker
}

// trackerKey is where objects are changed: where a face is served, and a subresource of it.
type trackerKey struct {
	served schema.GroupVersionResource
	view   string
}

// tracker keeps the managed fields of the objects that are changed in one way.
type tracker struct {
	face  *resource.Face
	quick *quick // nil if everything is left to the library
	// library is made when it is needed. It is nil for kinds that are not in its schema: reviews and bindings.
	library func() (*managedfields.FieldManager, error)
}

// Types is the schema by which objects of a face are merged; nil if there is none.
func Types(face *resource.Face) (managedfields.TypeConverter, error) {
	if face.Of.Topology != nil {
		return face.Of.Topology()
	}
	return types()
}

// Track notes in obj what manager changed between old and obj, as an update. old is nil for a create.
func (o *Owners) Track(face *resource.Face, view string, old, obj resource.Object, manager string) error {
	t := o.tracker(face, view)
	switch {
	case t.quick == nil:
	case t.quick.trees != nil:
		if t.quick.trackParts(old, obj, manager) {
			return nil
		}
		old, obj = asTree(old), asTree(obj)
		if t.quick.trackTree(old, obj, manager) {
			return nil
		}
	default:
		var before []metav1.ManagedFieldsEntry
		var left any
		if old != nil {
			before, left = old.GetManagedFields(), faced(face, old)
		}
		if after, ok := t.quick.track(left, faced(face, obj), before, obj.GetManagedFields(), manager); ok {
			obj.SetManagedFields(after)
			return nil
		}
	}
	old, obj = asTree(old), asTree(obj)
	// What the library cannot read is refused by validation, or was there before it was.
	if err := t.track(face, old, obj, manager); !errors.Is(err, errUnreadable) {
		if err == nil && old != nil {
			keepTimes(obj, old) // the library says when its manager wrote last, even if that changed nothing
		}
		return err
	}
	obj.SetManagedFields(nil) // as kube-apiserver: nobody is said to own what cannot be compared
	if view == "scale" && old != nil {
		obj.SetManagedFields(old.GetManagedFields()) // which a number that the schema does not know leaves as they are
	}
	return nil
}

var errUnreadable = errors.New("the library cannot read the object")

// asTree returns an object as the library takes it, if that is a tree.
func asTree(o resource.Object) resource.Object {
	if u := tree.Of(o); u != nil {
		return u
	}
	return o
}

// blank makes an object of a face as the library takes it.
func blank(face *resource.Face) runtime.Object {
	o := face.New()
	if u := tree.Of(o); u != nil {
		return u
	}
	return o
}

// faced is an object of a kind in the form of a face.
func faced(face *resource.Face, o resource.Object) any {
	if face.From == nil {
		return o
	}
	return face.From(o)
}

// track has the library do it.
func (t *tracker) track(face *resource.Face, old, obj resource.Object, manager string) error {
	m, err := t.library()
	if err != nil {
		return err
	}
	if m == nil { // the library knows nothing of this kind: what was known stays
		obj.SetManagedFields(nil)
		if old != nil {
			obj.SetManagedFields(old.GetManagedFields())
		}
		return nil
	}
	live := blank(face)
	if old != nil {
		live = named(face, old)
	}
	live.GetObjectKind().SetGroupVersionKind(face.GroupVersionKind)
	tracked, err := m.Update(live, as(face, obj), manager)
	if err != nil { // an element without its key, for one: what was known stays
		obj.SetManagedFields(live.(resource.Object).GetManagedFields())
		return fmt.Errorf("%w: %w", errUnreadable, err)
	}
	obj.SetManagedFields(tracked.(resource.Object).GetManagedFields())
	return nil
}

// as turns an object of a kind into its face, and names its kind.
func as(face *resource.Face, o resource.Object) runtime.Object {
	out := faced(face, o).(runtime.Object)
	out.GetObjectKind().SetGroupVersionKind(face.GroupVersionKind)
	return out
}

// named is as for an object that belongs to others too: its kind is named in a copy of its outermost struct.
func named(face *resource.Face, o resource.Object) runtime.Object {
	if face.From != nil {
		return as(face, o)
	}
	shallow := reflect.New(reflect.TypeOf(o).Elem())
	shallow.Elem().Set(reflect.ValueOf(o).Elem())
	out := shallow.Interface().(runtime.Object)
	out.GetObjectKind().SetGroupVersionKind(face.GroupVersionKind)
	return out
}

// Apply merges a configuration into live on behalf of manager. live is nil if there is no object yet. A conflict is an
// API status that names the fields and their owners. What changes nothing but times changes nothing.
func (o *Owners) Apply(face *resource.Face, view string, live resource.Object, configuration runtime.Object, manager string, force bool) (resource.Object, error) {
	t := o.tracker(face, view)
	switch {
	case t.quick == nil:
	case t.quick.trees != nil:
		if merged, ok := t.quick.applyParts(face, live, configuration, manager); ok {
			return merged, nil
		}
		live = asTree(live)
		if merged, ok := t.quick.applyTree(face, live, configuration, manager); ok {
			return merged, nil
		}
	case live != nil && face.From == nil:
		if merged, ok := t.quick.again(face, live, configuration, manager); ok {
			keepTimes(merged, live)
			return merged, nil
		}
	}
	return t.apply(face, asTree(live), configuration, manager, force)
}

// apply has the library do it.
func (t *tracker) apply(face *resource.Face, live resource.Object, configuration runtime.Object, manager string, force bool) (resource.Object, error) {
	m, err := t.library()
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "apply", face.Of.GroupResource(), "", "", 0, false)
	}
	base, err := faces{face.Of}.New(face.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	if live != nil {
		base = as(face, live.DeepCopyObject().(resource.Object))
	}
	result, err := m.Apply(base, configuration, manager, force)
	if err != nil {
		return nil, err
	}
	merged, ok := result.(resource.Object)
	if face.To != nil {
		merged, ok = face.To(result), true
	}
	if !ok {
		return nil, fmt.Errorf("applying made a %T, which is no object", result)
	}
	if live != nil {
		keepTimes(merged, live)
	}
	return merged, nil
}

// keepTimes leaves the managed fields as they were if nothing but their times is new.
func keepTimes(merged, live resource.Object) {
	before, after := live.GetManagedFields(), merged.GetManagedFields()
	if len(before) != len(after) {
		return
	}
	timeless := slices.Clone(after)
	for i := range timeless {
		timeless[i].Time = before[i].Time
	}
	if !sameEntries(timeless, before) {
		return
	}
	merged.SetManagedFields(before)
	kind, liveKind := merged.GetObjectKind(), live.GetObjectKind().GroupVersionKind()
	mergedKind := kind.GroupVersionKind()
	kind.SetGroupVersionKind(liveKind)
	if !equality.Semantic.DeepEqual(merged, live) {
		merged.SetManagedFields(after)
	}
	kind.SetGroupVersionKind(mergedKind)
}

func (o *Owners) tracker(face *resource.Face, view string) *tracker {
	at := trackerKey{face.GroupVersionResource(), view}
	o.mu.RLock()
	t := o.trackers[at]
	o.mu.RUnlock()
	if t != nil && t.face == face {
		return t
	}
	t = newTracker(face, view) // which may take some time, and may be done twice
	o.mu.Lock()
	defer o.mu.Unlock()
	if known := o.trackers[at]; known != nil && known.face == face {
		return known
	}
	if o.trackers == nil {
		o.trackers = map[trackerKey]*tracker{}
	}
	o.trackers[at] = t
	return t
}

func newTracker(face *resource.Face, view string) *tracker {
	t := &tracker{face: face, library: sync.OnceValues(func() (*managedfields.FieldManager, error) {
		if face.Of.Topology != nil {
			return ownManager(face, view)
		}
		known, err := types()
		if err != nil {
			return nil, err
		}
		f := faces{face.Of}
		example, err := f.New(face.GroupVersionKind)
		if err != nil {
			return nil, err
		}
		if _, err := known.ObjectToTyped(example); err != nil {
			return nil, nil
		}
		m, err := managedfields.NewDefaultFieldManager(known, f, f, f, face.GroupVersionKind, face.GroupVersion(), view, filters(face.Of, view))
		if err != nil {
			return nil, fmt.Errorf("track fields of %v: %w", face.GroupVersionKind, err)
		}
		return m, nil
	})}
	if face.Of.Topology != nil {
		if trees := newTrees(face, ignored(face.Of, view)); trees != nil {
			t.quick = &quick{trees: trees, version: face.GroupVersion().String(), view: view}
		}
		return t
	}
	if _, limited := only[face.Of.GroupResource().String()+"/"+view]; !limited {
		t.quick = newQuick(face, view, ignored(face.Of, view))
	}
	return t
}

// ownManager tracks a kind that brings its own topology.
func ownManager(face *resource.Face, view string) (*managedfields.FieldManager, error) {
	topology, err := face.Of.Topology()
	if err != nil {
		return nil, fmt.Errorf("read the topology of %v: %w", face.GroupVersionKind, err)
	}
	newManager := managedfields.NewDefaultFieldManager
	if face.Of.Custom {
		newManager = managedfields.NewDefaultCRDFieldManager
	}
	f := faces{face.Of}
	m, err := newManager(topology, f, f, f, face.GroupVersionKind, face.GroupVersion(), view, filters(face.Of, view))
	if err != nil {
		return nil, fmt.Errorf("track fields of %v: %w", face.GroupVersionKind, err)
	}
	return m, nil
}
