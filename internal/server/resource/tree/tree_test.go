package tree

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace/millrace/internal/server/resource"
)

// words are names and strings that are difficult for a JSON scanner.
var words = []string{"a", "b", "metadata", "labels", "spec", "", "with \"quotes\"", "back\\slash", "ümläut", "a\nb", "{", "]:,", "\u2028", "true", "7"}

func word(r *rand.Rand) string { return words[r.IntN(len(words))] }

func randomValue(r *rand.Rand, depth int) any {
	switch n := r.IntN(9); {
	case n == 0:
		return nil
	case n == 1:
		return r.IntN(2) == 0
	case n == 2:
		return r.Int64() - r.Int64()
	case n == 3:
		return r.Float64() * 100
	case n <= 5 || depth == 0:
		return word(r)
	case n == 6:
		list := []any{}
		for range r.IntN(3) {
			list = append(list, randomValue(r, depth-1))
		}
		return list
	}
	object := map[string]any{}
	for range r.IntN(4) {
		object[word(r)] = randomValue(r, depth-1)
	}
	return object
}

func randomObject(r *rand.Rand) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Tab",
		"spec": map[string]any{"a": randomValue(r, 2), "b": map[string]any{"a": randomValue(r, 1)}}}}
	u.SetName("name")
	labels := map[string]string{}
	for range r.IntN(4) {
		labels[word(r)] = word(r)
	}
	if len(labels) > 0 {
		u.SetLabels(labels)
	}
	if r.IntN(2) == 0 {
		u.Object[word(r)+"x"] = randomValue(r, 3)
	}
	return u
}

// selected returns the value at a path of a tree as field selectors see it.
func selected(u *unstructured.Unstructured, path ...string) string {
	v, found, err := unstructured.NestedFieldNoCopy(u.Object, path...)
	if err != nil || !found {
		return ""
	}
	switch v.(type) {
	case string, bool, int64:
		return fmt.Sprint(v)
	}
	return ""
}

func TestAttributesOfTheTextAreThoseOfTheTree(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	identity := &resource.Identity{Group: "example.com", Resource: "tabs"}
	selectable := []resource.Field{{Label: "spec.a"}, {Label: ".spec.b.a"}, {Label: "none.at.all"}}
	kind := New(Options{Identity: identity, Fields: selectable, Version: "v1", Storage: "v1", Kind: "Tab"})
	for range 5000 {
		u := randomObject(r)
		stored, err := kind.Encode(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		got, err := kind.Attributes(stored)
		if err != nil {
			t.Fatal(err)
		}
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(u.GetLabels())) {
			labels = append(labels, key, u.GetLabels()[key])
		}
		fields := []string{selected(u, "spec", "a"), selected(u, "spec", "b", "a"), ""}
		if !slices.Equal(got.Labels, labels) || !slices.Equal(got.Fields, fields) {
			t.Fatalf("seed %d: %s\ngot  %q %q\nwant %q %q", seed, stored, got.Labels, got.Fields, labels, fields)
		}
	}
}

func FuzzScanningEnds(f *testing.F) {
	f.Add([]byte(`{"metadata":{"labels":{"a":"b"}},"spec":{"a":[1,{"b":null}]}}`))
	f.Add([]byte(`{"metadata":{"labels":{"a`))
	f.Add([]byte(`{"a\`))
	f.Fuzz(func(t *testing.T, text []byte) {
		attributesOf(text, [][]string{{"spec", "a"}, {"a"}})
	})
}

func BenchmarkAttributes(b *testing.B) {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Tab", "spec": map[string]any{"a": "x"}}}
	u.SetName("name")
	u.SetLabels(map[string]string{"app": "web", "tier": "front"})
	for i := range 20 {
		u.Object["spec"].(map[string]any)[fmt.Sprintf("field%d", i)] = "a value of some thirty characters"
	}
	identity := &resource.Identity{Group: "example.com", Resource: "tabs"}
	kind := New(Options{Identity: identity, Fields: []resource.Field{{Label: "spec.a"}}, Version: "v1", Storage: "v1", Kind: "Tab"})
	stored, err := kind.Encode(b.Context(), u)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(stored)))
	for b.Loop() {
		kind.Attributes(stored)
	}
}
