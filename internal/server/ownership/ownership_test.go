package ownership

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/randomly"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
)

// history changes an object again and again, both ways.
type history struct {
	*testing.T
	*filler
	owners      Owners
	face        *resource.Face
	live        resource.Object
	quick, slow int
}

// TestQuickWayAgreesWithLibrary changes random objects of all kinds, by several managers, through all views.
func TestQuickWayAgreesWithLibrary(t *testing.T) {
	n := randomly.Seed(t)
	quick, slow := 0, 0
	for _, k := range builtin.Kinds() {
		for _, face := range k.Faces {
			t.Run(face.GroupVersion().String()+"/"+face.Kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := &history{T: t, filler: &filler{Rand: rand.New(rand.NewPCG(n, uint64(len(face.Kind))))}, face: face}
					for round := range 8 {
						h.strange = round%4 == 3
						h.live = nil
						for range 8 {
							h.step()
							time.Sleep(time.Second)
						}
					}
					quick, slow = quick+h.quick, slow+h.slow
				})
			})
		}
	}
	t.Logf("%d changes were done the quick way, %d left to the library", quick, slow)
	if quick < slow {
		t.Error("too much is left to the library")
	}
}

func (h *history) step() {
	view := ""
	if h.live != nil {
		views := []string{"", ""}
		for name := range h.face.Of.Views {
			views = append(views, name)
		}
		view = views[h.IntN(len(views))]
		if h.IntN(6) == 0 && h.apply() {
			return
		}
	}
	obj := h.changed()
	manager := []string{"kubectl", "controller", "kubelet"}[h.IntN(3)]
	d := h.owners.tracker(h.face, view)
	want := obj.DeepCopyObject().(resource.Object)
	unreadable := d.track(h.face, h.copy(), want, manager)
	switch m, err := d.library(); {
	case err != nil:
		h.Fatal(err)
	case d.quick == nil || m == nil || unreadable != nil:
		h.slow++
	default:
		h.compare(d, obj, want, manager, view)
	}
	h.live = want
	if want.GetUID() == "" {
		want.SetUID("u-1")
	}
}

func (h *history) copy() resource.Object {
	if h.live == nil {
		return nil
	}
	return h.live.DeepCopyObject().(resource.Object)
}

func (h *history) compare(d *tracker, obj, want resource.Object, manager, view string) {
	var before []metav1.ManagedFieldsEntry
	var old any
	if h.live != nil {
		before, old = h.live.GetManagedFields(), faced(h.face, h.live)
	}
	got, ok := d.quick.track(old, faced(h.face, obj), before, obj.GetManagedFields(), manager)
	if !ok {
		h.slow++
		return
	}
	h.quick++
	if a, b := printed(got), printed(want.GetManagedFields()); a != b {
		h.Fatalf("view %q by %s\nbefore %s\n   got %s\n  want %s\n   old %s\n   new %s", view, manager, printed(before), a, b, printed(h.live), printed(obj))
	}
}

func printed(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// changed is the live object with something else in it, or a new one.
func (h *history) changed() resource.Object {
	if h.live == nil {
		obj := h.face.Of.New()
		h.fill(reflect.ValueOf(obj).Elem(), 0)
		obj.SetUID("")
		obj.SetManagedFields(nil)
		return obj
	}
	obj := h.live.DeepCopyObject().(resource.Object)
	switch h.IntN(10) {
	case 0: // nothing
	case 1:
		obj.SetManagedFields(nil)
	case 2:
		if h.strange {
			obj.SetManagedFields([]metav1.ManagedFieldsEntry{})
		}
	default:
		v := reflect.ValueOf(obj).Elem()
		for range 1 + h.IntN(3) {
			h.touch(v)
		}
	}
	obj.SetUID(h.live.GetUID())
	return obj
}

// touch goes some way down and fills what is there anew.
func (h *history) touch(v reflect.Value) {
	for {
		_, leaf := leaves[v.Type()]
		switch {
		case leaf || v.Type() == reflect.TypeFor[runtime.RawExtension]():
			h.fill(v, 2)
			return
		case v.Kind() == reflect.Pointer && !v.IsNil():
			v = v.Elem()
		case v.Kind() == reflect.Slice && v.Len() > 0 && h.IntN(4) > 0:
			v = v.Index(h.IntN(v.Len()))
		case v.Kind() == reflect.Struct && v.NumField() > 0 && h.IntN(6) > 0:
			f := v.Field(h.IntN(v.NumField()))
			if !f.CanSet() {
				return
			}
			v = f
		default:
			h.fill(v, 2)
			return
		}
	}
}

// apply has the library apply a random part of a random object, so that there are entries of that kind too.
func (h *history) apply() bool {
	source := h.face.New()
	h.fill(reflect.ValueOf(source).Elem(), 2)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(source)
	if err != nil {
		return false
	}
	delete(content, "metadata")
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(h.face.GroupVersionKind)
	u.SetName("x")
	u.SetLabels(map[string]string{"applied": fmt.Sprint(h.IntN(3))})
	merged, err := h.owners.Apply(h.face, "", h.copy(), u, "applier", true)
	if err != nil {
		return false
	}
	h.live = merged
	return true
}
