package body

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	strictjson "sigs.k8s.io/json"

	"github.com/millrace/millrace/internal/server/resource/tree"
)

// inTwoSteps first decodes the kind and version of a body and then the rest. Errors must come in that order.
func inTwoSteps(text []byte, into runtime.Object, want schema.GroupVersionKind) ([]error, error) {
	said, err := identify(text)
	if err != nil {
		return nil, err
	}
	if u := tree.Of(into); u != nil {
		if strict, err := strictjson.UnmarshalStrict(text, &u.Object); err == nil {
			return strict, kindOfTree(text, u, want)
		}
	}
	if err := checkKind(said.APIVersion, said.Kind, want); err != nil {
		return nil, Body{Bytes: text}.otherKind(said, want, err)
	}
	strict, err := strictjson.UnmarshalStrict(text, into)
	if err != nil {
		return nil, fmt.Errorf("%s in version %q cannot be handled as a %s: %w", want.Kind, want.Version, want.Kind, err)
	}
	into.GetObjectKind().SetGroupVersionKind(want)
	return strict, nil
}

// kindOfTree checks the kind and version of a custom resource that has been decoded.
func kindOfTree(text []byte, u *unstructured.Unstructured, want schema.GroupVersionKind) error {
	switch {
	case u.GetKind() == "":
		return Body{Bytes: text}.unrecognized(want, runtime.NewMissingKindErr(string(text)))
	case u.GetAPIVersion() != want.GroupVersion().String():
		return fmt.Errorf("the API version in the data (%s) does not match the expected API version (%s)", u.GetAPIVersion(), want.GroupVersion())
	case u.GetKind() != want.Kind:
		return fmt.Errorf(`is invalid: kind: Invalid value: %q: must be %s`, u.GetKind(), want.Kind)
	}
	return nil
}

func TestOnePassOverABodyFindsTheSameAsTwo(t *testing.T) {
	pods := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	things := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	heads := []string{
		``, `"kind":"Pod","apiVersion":"v1",`, `"kind":"Pod",`, `"apiVersion":"v1",`, `"apiVersion":"/v1","kind":"Pod",`, `"apiVersion":"a/b/c",`,
		`"apiVersion":"apps/v1","kind":"Deployment",`, `"Kind":"Node",`, `"KIND":"Pod","kind":"Node",`, `"kind":"Node","kind":"Pod",`, `"kind":null,`,
		`"kind":3,`, `"kind":{"a":1},`, `"apiVersion":"example.com/v1","kind":"Thing",`, `"ki\u006ed":"Pod",`, `"kind":"\u0050od",`,
	}
	tails := []string{
		`"metadata":{"name":"a"}}`, `"metadata":{"name":"a","name":"b"}}`, `"metadata":{"nam":"a"}}`, `"metadata":3}`, `"spec":{"containers":[{"name":1}]}}`,
		`"metadata":{"name":"a"}`, `"metadata":{}} x`, `"metadata":{}}}`, `"metadata":null}`, `]`, ``,
	}
	for _, head := range heads {
		for _, tail := range tails {
			for _, want := range []schema.GroupVersionKind{pods, things} {
				fresh := func() runtime.Object { return &corev1.Pod{} }
				if want == things {
					fresh = func() runtime.Object { return tree.NewObject(&unstructured.Unstructured{}) }
				}
				text := []byte("{" + head + tail)
				one, two := fresh(), fresh()
				strict, err := decodeJSON(text, one, want)
				strict2, err2 := inTwoSteps(text, two, want)
				switch {
				case (err == nil) != (err2 == nil) || err != nil && !strings.Contains(err.Error(), err2.Error()):
					t.Errorf("%s as %s: %v, in two steps %v", text, want.Kind, err, err2)
				case fmt.Sprint(strict) != fmt.Sprint(strict2):
					t.Errorf("%s as %s: found %v, in two steps %v", text, want.Kind, strict, strict2)
				case err == nil && (want == pods && !reflect.DeepEqual(one, two) || want == things && !reflect.DeepEqual(tree.Of(one), tree.Of(two))):
					t.Errorf("%s as %s: %v, in two steps %v", text, want.Kind, one, two)
				}
			}
		}
	}
}
