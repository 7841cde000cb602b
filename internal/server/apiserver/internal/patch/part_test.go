package patch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/randomly"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/randfill"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
)

func fillerOf(r *rand.Rand) *randfill.Filler {
	return randfill.NewWithSeed(r.Int63()).NilChance(0.4).NumElements(0, 3).MaxDepth(12).Funcs(
		func(s *string, c randfill.Continue) { *s = []string{"", "a", "b", "c d", "e\"f", "日本"}[c.Intn(6)] },
		func(v *apiextensionsv1.JSON, _ randfill.Continue) { v.Raw = []byte(`{"a":1}`) },
		func(*metav1.TypeMeta, randfill.Continue) {},
		func(v *metav1.Time, c randfill.Continue) { v.Time = time.Unix(c.Int63n(1<<31), 0) },
		func(v *metav1.MicroTime, c randfill.Continue) {
			v.Time = time.Unix(c.Int63n(1<<31), 1000*c.Int63n(1e6))
		},
		func(v *apiresource.Quantity, c randfill.Continue) {
			*v = *apiresource.NewMilliQuantity(c.Int63n(5000), apiresource.DecimalSI)
		},
		func(v *intstr.IntOrString, c randfill.Continue) { *v = intstr.FromInt32(int32(c.Intn(3))) },
		func(v *runtime.RawExtension, c randfill.Continue) { *v = runtime.RawExtension{Raw: []byte(`{"a":1}`)} },
		func(v *metav1.FieldsV1, c randfill.Continue) { *v = *metav1.NewFieldsV1(`{"f:a":{}}`) },
	)
}

// storedObject returns a random object after an encoding in protobuf and in JSON, as an updater gets it. JSON does not
// distinguish a nil slice from an empty one, and the general path loses that difference.
func storedObject(t *testing.T, k *resource.Kind, fill *randfill.Filler) resource.Object {
	t.Helper()
	o, sent := k.New(), k.New()
	fill.Fill(sent)
	text, err := json.Marshal(sent)
	if err == nil {
		err = json.Unmarshal(text, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := k.Encode(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if o, err = k.Decode(t.Context(), b, "7"); err != nil {
		t.Fatal(err)
	}
	return o
}

// somePatch returns a patch that changes parts of one object to those of another.
func somePatch(t *testing.T, r *rand.Rand, kind types.PatchType, old, other resource.Object) []byte {
	t.Helper()
	a, _ := json.Marshal(old)
	b, _ := json.Marshal(other)
	if kind == types.JSONPatchType {
		return operations(r, a, b)
	}
	var patch []byte
	var err error
	if kind == types.StrategicMergePatchType {
		patch, err = strategicpatch.CreateTwoWayMergePatch(a, b, old)
	} else {
		patch, err = jsonpatch.CreateMergePatch(a, b)
	}
	if err != nil {
		return nil // objects whose lists have elements without a merge key
	}
	var tree map[string]any
	if err := json.Unmarshal(patch, &tree); err != nil {
		t.Fatal(err)
	}
	thin(r, tree, 3)
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// thin removes most of the fields, and replaces some by invalid values.
func thin(r *rand.Rand, tree map[string]any, keep int) {
	for _, name := range slices.Sorted(keysOf(tree)) {
		inner, isObject := tree[name].(map[string]any)
		switch {
		case r.Intn(keep) > 0 && len(tree) > 1:
			delete(tree, name)
		case r.Intn(60) == 0:
			tree[name] = []any{nil, "x", 1, map[string]any{}, map[string]any{"unknown": 1}}[r.Intn(5)]
		case r.Intn(200) == 0:
			tree["unknown"] = 1
		case isObject:
			thin(r, inner, keep)
		}
	}
}

func keysOf(m map[string]any) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func operations(r *rand.Rand, a, b []byte) []byte {
	var old, other any
	_ = json.Unmarshal(a, &old)
	_ = json.Unmarshal(b, &other)
	var all []map[string]any
	for range 1 + r.Intn(4) {
		path, value := somewhere(r, old)
		_, newValue := somewhere(r, other)
		o := map[string]any{"op": []string{"add", "remove", "replace", "test", "copy", "move"}[r.Intn(6)], "path": path}
		switch o["op"] {
		case "test":
			o["value"] = value
		case "copy", "move":
			o["from"], _ = somewhere(r, old)
		case "add", "replace":
			if o["value"] = value; r.Intn(3) == 0 {
				o["value"] = newValue
			}
		}
		all = append(all, o)
	}
	text, _ := json.Marshal(all)
	return text
}

// somewhere returns a random place in a document.
func somewhere(r *rand.Rand, v any) (path string, value any) {
	for {
		switch x := v.(type) {
		case map[string]any:
			if len(x) == 0 || path != "" && r.Intn(4) == 0 {
				return path, v
			}
			names := slices.Sorted(keysOf(x))
			name := names[r.Intn(len(names))]
			path, v = path+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), x[name]
		case []any:
			if len(x) == 0 || r.Intn(4) == 0 {
				return path + []string{"", "/-"}[r.Intn(2)], v
			}
			i := r.Intn(len(x))
			path, v = fmt.Sprintf("%s/%d", path, i), x[i]
		default:
			return path, v
		}
	}
}

func TestAPatchOfAPartGivesTheSameAsOneOfTheWhole(t *testing.T) {
	seed := int64(randomly.Seed(t))
	r := rand.New(rand.NewSource(seed))
	fill := fillerOf(r)
	short, all := 0, 0
	for _, k := range builtin.Kinds() {
		face := k.Faces[0]
		for round := range 6 {
			kind := []types.PatchType{types.MergePatchType, types.StrategicMergePatchType, types.JSONPatchType}[round%3]
			old, other := storedObject(t, k, fill), storedObject(t, k, fill)
			text := somePatch(t, r, kind, old, other)
			change, err := Compile(kind, text, face.New)
			if text == nil || err != nil {
				continue
			}
			all++
			before := old.DeepCopyObject()
			got, ok := PartOf(k, kind, text, change).Apply(old)
			if !ok {
				continue
			}
			short++
			if a, b := encoded(t, k, old), encoded(t, k, before.(resource.Object)); !bytes.Equal(a, b) {
				t.Fatalf("seed %d: %s: the old object has been changed by %s", seed, k.Kind, text)
			}
			into, _, strict, err := Whole(face, kind, old, text, change)
			if err != nil || len(strict) > 0 {
				t.Fatalf("seed %d: %s: %s %s: should be %v, %v", seed, k.Kind, kind, text, err, strict)
			}
			if a, b := encoded(t, k, got), encoded(t, k, into.(resource.Object)); !bytes.Equal(a, b) {
				x, _ := json.Marshal(got)
				y, _ := json.Marshal(into)
				t.Fatalf("seed %d: %s: %s %s:\n got %s\nwant %s", seed, k.Kind, kind, text, x, y)
			}
		}
	}
	t.Logf("%d of %d patches went the short way", short, all)
	if short < all/4 || short == all {
		t.Errorf("%d of %d patches went the short way", short, all)
	}
}

func encoded(t *testing.T, k *resource.Kind, o resource.Object) []byte {
	t.Helper()
	b, err := k.Encode(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
