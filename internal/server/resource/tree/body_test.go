package tree_test

import (
	"context"
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

func TestTheBodyOfStoredTextIsWhatDecodingAndEncodingMake(t *testing.T) {
	r := tree.New(tree.Options{
		Identity: &resource.Identity{Group: "example.com", Resource: "tabs"}, Version: "v1", Storage: "v1", Kind: "Tab",
		Whole: func(string, []byte) (whole, plain bool) { return true, false },
	})
	texts := r.(resource.Texts)
	for _, meta := range []map[string]any{
		{"name": "a"},
		{"name": "a", "uid": "1"},
		{"uid": "1"},
		{"name": "a", "labels": map[string]any{"uid": "<&>"}, "namespace": "b", "uid": "1", "selfLink": "x"},
		{"annotations": map[string]any{"a": `"}{`}},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Tab", "metadata": meta, "spec": map[string]any{"a": int64(1)}}}
		stored, err := r.Encode(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		body, ok := texts.Body(t.Context(), stored, []byte("7"))
		if !ok {
			t.Fatalf("%s: no body", stored)
		}
		u.SetResourceVersion("7")
		delete(u.Object, "apiVersion")
		delete(u.Object, "kind")
		want, err := json.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		if "{"+string(body) != string(want) {
			t.Errorf("got  {%s\nwant %s", body, want)
		}
	}
	for _, text := range []string{"", "{}", `{"apiVersion":"example.com/v1","kind":"Tab",`, `{"apiVersion":"example.com/v1","kind":"Tab","metadata":{`,
		`{"apiVersion":"example.com/v1","kind":"Tab","metadata":{}}`, `{"apiVersion":"example.com/v2","kind":"Tab","metadata":{"name":"a"}}`,
		`{"apiVersion":"example.com/v1","kind":"Tab","metadata":{"name":"a"`, `{"apiVersion":"example.com/v1","kind":"Tab","metadata":{"resourceVersion":"3"}}`} {
		if body, ok := texts.Body(t.Context(), []byte(text), []byte("7")); ok {
			t.Errorf("%s became %s", text, body)
		}
	}
}

func TestWhatIsConvertedIsKeptUpToABound(t *testing.T) {
	const many = 50
	id := &resource.Identity{Group: "example.com", Resource: "tabs"}
	count := &counting{}
	r := tree.New(tree.Options{Identity: id, Version: "v2", Storage: "v1", Kind: "Tab", Convert: count, Converted: tree.NewConverted(10_000), Edition: 1})
	var stored [][]byte
	for i := range many {
		text, err := json.Marshal(map[string]any{"apiVersion": "example.com/v1", "kind": "Tab", "metadata": map[string]any{"name": string(rune('a' + i))}})
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, text)
	}
	foreign := r.(resource.Foreign)
	for range 2 {
		if err := foreign.Prepare(t.Context(), stored[:10]); err != nil {
			t.Fatal(err)
		}
	}
	if count.calls != 1 || count.objects != 10 {
		t.Errorf("%d objects in %d calls", count.objects, count.calls)
	}
	if err := foreign.Prepare(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	before := count.objects
	o, err := r.Decode(t.Context(), stored[0], "3")
	if err != nil || o.GetResourceVersion() != "3" || o.GetObjectKind().GroupVersionKind().Version != "v2" {
		t.Errorf("%v, %v", o, err)
	}
	if count.objects != before+1 {
		t.Error("more than the bound was kept")
	}
}

// counting converts by changing the name of the version, and counts.
type counting struct{ calls, objects int }

func (c *counting) Convert(_ context.Context, objects []*unstructured.Unstructured, toVersion string) ([]*unstructured.Unstructured, error) {
	c.calls++
	c.objects += len(objects)
	for _, o := range objects {
		o.SetAPIVersion("example.com/" + toVersion)
	}
	return objects, nil
}
