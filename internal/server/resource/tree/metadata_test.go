package tree

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace/millrace/internal/randomly"
)

const managed = `{"apiVersion":"example.com/v1","kind":"Tab","metadata":{"name":"a","labels":{"x":"y"},"managedFields":[
	{"manager":"m","operation":"Update","apiVersion":"example.com/v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}},
	{"manager":"n","operation":"Apply","apiVersion":"example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{}}},"subresource":"status"}]},"spec":{"list":[1,{}]}}`

func TestManagersAreReadWithoutTheirSets(t *testing.T) {
	u, err := Read([]byte(managed))
	if err != nil {
		t.Fatal(err)
	}
	got, want := Lean(u).GetManagedFields(), u.GetManagedFields()
	for i := range want {
		want[i].FieldsV1 = nil
	}
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, strange := range []any{"text", []any{"text"}, []any{map[string]any{"manager": int64(1)}}, []any{map[string]any{"unknown": "x"}},
		[]any{map[string]any{"time": "yesterday"}}, []any{map[string]any{"fieldsV1": "x"}}} {
		if _, ok := Managers(strange); ok {
			t.Errorf("%v was read", strange)
		}
	}
}

func TestACopyMayBeChanged(t *testing.T) {
	u, err := Read([]byte(managed))
	if err != nil {
		t.Fatal(err)
	}
	before := u.DeepCopy()
	c := Copy(u)
	if !reflect.DeepEqual(c, u) {
		t.Errorf("copied %v", c)
	}
	c.SetLabels(map[string]string{"x": "z"})
	c.SetManagedFields(nil)
	c.Object["spec"].(map[string]any)["list"].([]any)[1].(map[string]any)["a"] = "b"
	if !reflect.DeepEqual(u, before) {
		t.Errorf("the copy shares what was changed: %v", u)
	}
	if empty := (&unstructured.Unstructured{Object: map[string]any{"metadata": nil}}); !reflect.DeepEqual(Copy(empty), empty) {
		t.Error("metadata that are null were copied to something else")
	}
}

func TestTreesAreEqualAsKubernetesFindsThem(t *testing.T) {
	random := rand.New(rand.NewPCG(randomly.Seed(t), 1))
	var value func(depth int) any
	value = func(depth int) any {
		if depth < 3 && random.IntN(2) == 0 {
			if random.IntN(2) == 0 {
				return []any{[]any{}, []any(nil), []any{value(depth + 1)}}[random.IntN(3)]
			}
			return []any{map[string]any{}, map[string]any(nil), map[string]any{"a": value(depth + 1)}}[random.IntN(3)]
		}
		return []any{"a", int64(1), 1.0, true, nil}[random.IntN(5)]
	}
	for range 5000 {
		a, b := value(0), value(0)
		if got, want := Equal(a, b), equality.Semantic.DeepEqual(a, b); got != want {
			t.Fatalf("%#v and %#v: %v", a, b, got)
		}
	}
}
