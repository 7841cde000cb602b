package patch

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/randomly"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

// TestTreesArePatchedAsTheirTextsAre merges random patches into random objects both ways.
func TestTreesArePatchedAsTheirTextsAre(t *testing.T) {
	random := rand.New(rand.NewPCG(randomly.Seed(t), 1))
	face := &resource.Face{
		GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"},
		New:              func() runtime.Object { return tree.NewObject(&unstructured.Unstructured{}) },
	}
	var value func(depth int, nulls bool) any
	object := func(depth int, nulls bool) map[string]any {
		m := map[string]any{}
		for range random.IntN(5) {
			m[string(rune('a'+random.IntN(5)))] = value(depth+1, nulls)
		}
		return m
	}
	value = func(depth int, nulls bool) any {
		switch n := random.IntN(7); {
		case n < 3 && depth < 4:
			return object(depth, nulls)
		case n == 3 && depth < 4:
			return []any{value(depth+1, nulls && random.IntN(4) == 0), "x"}
		case n == 4:
			return int64(random.IntN(3))
		case n == 5 && nulls:
			return nil
		}
		return "text"
	}
	short, inParts := 0, 0
	const rounds = 6000
	for range rounds {
		old := &unstructured.Unstructured{Object: object(0, random.IntN(3) == 0)}
		old.Object["metadata"] = map[string]any{"name": "x", "uid": "u", "managedFields": []any{map[string]any{"manager": "m"}}}
		old.SetGroupVersionKind(face.GroupVersionKind)
		changes := object(0, true)
		switch random.IntN(8) {
		case 0:
			changes["metadata"] = map[string]any{"managedFields": nil, "labels": map[string]any{"a": "b"}}
		case 1:
			changes["kind"] = "Other"
		}
		text, err := json.Marshal(changes)
		if err != nil {
			t.Fatal(err)
		}
		change := TreeOf(types.MergePatchType, text)
		before := old.DeepCopy()
		got, ok := change.Apply(face, old)
		if !reflect.DeepEqual(old, before) {
			t.Fatalf("%s has changed what was there: %v", text, before)
		}
		if !ok {
			continue
		}
		short++
		if whole, err := old.MarshalJSON(); err != nil {
			t.Fatal(err)
		} else if parts, ok := tree.ParseObject(strings.TrimSpace(string(whole))); ok {
			inParts++
			again, ok := change.Apply(face, parts)
			if !ok || !reflect.DeepEqual(tree.Of(again), tree.Of(got)) || !reflect.DeepEqual(tree.Of(parts), old) {
				t.Fatalf("%s into %s: the parts became %v, the tree %v", text, whole, tree.Of(again), tree.Of(got))
			}
		}
		compiled, err := Compile(types.MergePatchType, text, face.New)
		if err != nil {
			t.Fatal(err)
		}
		want, _, strict, err := Whole(face, types.MergePatchType, old, text, compiled)
		if err != nil || len(strict) > 0 || !reflect.DeepEqual(tree.Of(got), tree.Of(want)) {
			t.Fatalf("%s into %v\n got %v\nwant %v (%v, %v)", text, before, got, want, strict, err)
		}
	}
	if short < rounds/2 || inParts < rounds/10 {
		t.Errorf("only %d of %d went the short way, %d in parts", short, rounds, inParts)
	}
	for text, kind := range map[string]types.PatchType{`{"a":"b"}`: types.JSONPatchType, `{"a":[null]}`: types.MergePatchType, `[]`: types.MergePatchType, `{"a":1,"a":2}`: types.MergePatchType} {
		if TreeOf(kind, []byte(text)) != nil {
			t.Errorf("%s as %s went the short way", text, kind)
		}
	}
}
