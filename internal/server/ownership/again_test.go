package ownership

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/randomly"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/apps"
	"github.com/millrace/millrace/internal/server/resource/builtin"
)

// vary gives some values of a configuration other values, and rarely adds, removes or moves something.
func vary(r *rand.Rand, tree any) any {
	switch v := tree.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if r.IntN(150) == 0 {
				delete(v, name)
			} else if r.IntN(3) > 0 {
				v[name] = vary(r, v[name])
			}
		}
		if r.IntN(150) == 0 {
			v["added"] = "x"
		}
	case []any:
		for i := range v {
			v[i] = vary(r, v[i])
		}
		if len(v) > 1 && r.IntN(20) == 0 {
			v[0], v[1] = v[1], v[0]
		}
	case string:
		if r.IntN(20) == 0 {
			return words[r.IntN(len(words))]
		}
	case int64:
		if r.IntN(10) == 0 {
			return int64(r.IntN(3))
		}
	case bool:
		return r.IntN(10) > 0 == v
	}
	return tree
}

// TestApplyingAgainAgreesWithTheLibrary applies random configurations to random objects that others own too.
func TestApplyingAgainAgreesWithTheLibrary(t *testing.T) {
	n := randomly.Seed(t)
	again, all := 0, 0
	for _, k := range builtin.Kinds() {
		t.Run(k.Kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &history{T: t, filler: &filler{Rand: rand.New(rand.NewPCG(n, uint64(len(k.Kind))))}, face: k.Faces[0]}
				for range 4 {
					a, b := h.applyAgain()
					again, all = again+a, all+b
				}
			})
		})
	}
	t.Logf("%d of %d configurations were applied here", again, all)
	if again < all/10 || again == all {
		t.Errorf("%d of %d configurations were applied here", again, all)
	}
}

func (h *history) applyAgain() (again, all int) {
	h.live = nil
	obj, d := h.changed(), h.owners.tracker(h.face, "")
	if d.quick == nil || d.track(h.face, nil, obj, "creator") != nil {
		return 0, 0
	}
	source := h.face.New()
	h.fill(reflect.ValueOf(source).Elem(), 1)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(source)
	if err != nil {
		return 0, 0
	}
	delete(content, "metadata")
	delete(content, "status")
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(h.face.GroupVersionKind)
	u.SetName(obj.GetName())
	u.SetLabels(map[string]string{"applied": "1", "a": "b"})
	live, err := d.apply(h.face, obj, u.DeepCopy(), "applier", true)
	if err != nil {
		return 0, 0
	}
	for range 6 {
		time.Sleep(time.Second)
		u = &unstructured.Unstructured{Object: vary(h.Rand, u.DeepCopy().Object).(map[string]any)}
		u.SetGroupVersionKind(h.face.GroupVersionKind)
		u.SetName(obj.GetName())
		force := h.IntN(2) == 0
		all++
		before := asText(live)
		got, ok := d.quick.again(h.face, live, u.DeepCopy(), "applier")
		if asText(live) != before {
			h.Fatalf("the object itself has been changed by %v", u.Object)
		}
		want, err := d.apply(h.face, live, u.DeepCopy(), "applier", force)
		if ok {
			again++
			keepTimes(got, live)
			if err != nil || asText(got) != asText(want) {
				h.Fatalf("%s: applying %s to %s:\n got %s\nwant %s, %v", h.face.Kind, asText(u), before, asText(got), asText(want), err)
			}
		}
		if err == nil {
			live = want
		}
	}
	return again, all
}

func asText(o any) string {
	if o == nil || reflect.ValueOf(o).IsNil() {
		return ""
	}
	b, err := json.Marshal(o)
	return fmt.Sprint(string(b), err)
}

func BenchmarkApplyAgain(b *testing.B) {
	var kind *resource.Kind
	for _, k := range apps.Kinds() {
		if k.Kind == "Deployment" {
			kind = k
		}
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","annotations":{"a":"1"},"labels":{"app":"web"}},
		"spec":{"replicas":3,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[
		{"name":"web","image":"registry.example/app:1","ports":[{"containerPort":80}],"env":[{"name":"A","value":"1"}]}]}}}}`), &u.Object); err != nil {
		b.Fatal(err)
	}
	var w Owners
	live, err := w.Apply(kind.Faces[0], "", nil, u, "applier", false)
	if err != nil {
		b.Fatal(err)
	}
	d := w.tracker(kind.Faces[0], "")
	b.Run("here", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := d.quick.again(kind.Faces[0], live, u, "applier"); !ok {
				b.Fatal("left to the library")
			}
		}
	})
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := d.apply(kind.Faces[0], live, u, "applier", false); err != nil {
				b.Fatal(err)
			}
		}
	})
}
