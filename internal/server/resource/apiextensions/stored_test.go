package apiextensions_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/server/resource/apiextensions"
)

// definition has a version for each of the schemas' descriptions.
func definition(descriptions ...string) *v1.CustomResourceDefinition {
	d := &v1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com", UID: "7", Labels: map[string]string{"a": "b"}},
		Spec: v1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: v1.NamespaceScoped,
			Names: v1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
			Conversion: &v1.CustomResourceConversion{Strategy: v1.WebhookConverter, Webhook: &v1.WebhookConversion{
				ConversionReviewVersions: []string{"v1"},
				ClientConfig:             &v1.WebhookClientConfig{Service: &v1.ServiceReference{Namespace: "n", Name: "s", Port: new(int32)}},
			}},
		},
		Status: v1.CustomResourceDefinitionStatus{StoredVersions: []string{"v1"}},
	}
	for i, text := range descriptions {
		d.Spec.Versions = append(d.Spec.Versions, v1.CustomResourceDefinitionVersion{
			Name: "v" + string(rune('1'+i)), Served: true, Storage: i == 0,
			Schema: &v1.CustomResourceValidation{OpenAPIV3Schema: &v1.JSONSchemaProps{
				Type: "object", Description: text, Properties: map[string]v1.JSONSchemaProps{"n": {Type: "integer", Default: &v1.JSON{Raw: []byte("7")}}},
			}},
			Subresources:             &v1.CustomResourceSubresources{Status: &v1.CustomResourceSubresourceStatus{}},
			AdditionalPrinterColumns: []v1.CustomResourceColumnDefinition{{Name: text, Type: "string", JSONPath: ".spec.a"}},
			SelectableFields:         []v1.SelectableField{{JSONPath: ".spec.a"}},
		})
	}
	return d
}

func TestADefinitionIsStoredInTheVersionThatKubernetesStores(t *testing.T) {
	for name, d := range map[string]*v1.CustomResourceDefinition{
		"one version": definition("one"), "one schema": definition("one", "one"), "two schemas": definition("one", "two"),
	} {
		before := d.DeepCopy()
		stored, err := apiextensions.Definitions().Encode(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(d, before) {
			t.Errorf("%s: storing changes the definition", name)
		}
		if !bytes.HasPrefix(stored, []byte(`{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1","metadata":{`)) {
			t.Errorf("%s is stored as %s", name, stored)
		}
		a, err := apiextensions.Definitions().Attributes(stored)
		if err != nil || !slices.Equal(a.Labels, []string{"a", "b"}) {
			t.Errorf("%s has the labels %q: %v", name, a.Labels, err)
		}
		if back := decoded(t, stored); !equality.Semantic.DeepEqual(back, before) {
			t.Errorf("%s: read\n%+v\nwant\n%+v", name, back, before)
		}
	}
}

func decoded(t *testing.T, stored []byte) *v1.CustomResourceDefinition {
	t.Helper()
	o, err := apiextensions.Definitions().Decode(t.Context(), stored, "")
	if err != nil {
		t.Fatal(err)
	}
	return o.(*v1.CustomResourceDefinition)
}

func TestADefinitionStoredInEitherVersionAndFormatCanBeRead(t *testing.T) {
	want := definition("one", "two")
	message, err := want.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	whole := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}, Raw: message}
	proto, err := whole.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	for name, stored := range map[string][]byte{"protobuf": append([]byte("k8s\x00"), proto...), "JSON": text} {
		if got := decoded(t, stored); !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("v1 in %s: read\n%+v\nwant\n%+v", name, got, want)
		}
	}
}

// Kubernetes 1.10 knew spec.version alone, and no defaults for what came later.
func TestADefinitionOfAnOldServerGetsDefaults(t *testing.T) {
	old := &v1beta1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1beta1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"},
		Spec: v1beta1.CustomResourceDefinitionSpec{
			Group: "example.com", Version: "v1", Names: v1beta1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
			Validation: &v1beta1.CustomResourceValidation{OpenAPIV3Schema: &v1beta1.JSONSchemaProps{Type: "object"}},
		},
	}
	text, err := json.Marshal(old)
	if err != nil {
		t.Fatal(err)
	}
	d := decoded(t, text)
	if v := d.Spec.Versions; len(v) != 1 || v[0].Name != "v1" || !v[0].Served || !v[0].Storage || v[0].Schema == nil {
		t.Errorf("versions %+v", v)
	}
	if d.Spec.Scope != v1.NamespaceScoped || !d.Spec.PreserveUnknownFields || d.Spec.Names.ListKind != "ThingList" || d.Spec.Conversion.Strategy != v1.NoneConverter {
		t.Errorf("read %+v", d.Spec)
	}
}

func TestVersionsOfOneSchemaShareNothing(t *testing.T) {
	stored, err := apiextensions.Definitions().Encode(t.Context(), definition("one", "one"))
	if err != nil {
		t.Fatal(err)
	}
	v := decoded(t, stored).Spec.Versions
	v[0].Schema.OpenAPIV3Schema.Description, v[0].AdditionalPrinterColumns[0].Name = "changed", "changed"
	if v[1].Schema.OpenAPIV3Schema.Description != "one" || v[1].AdditionalPrinterColumns[0].Name != "one" {
		t.Error("a change of one version changes another")
	}
}

func TestADefinitionWhoseValuesAreIndentedIsTheSame(t *testing.T) {
	k := apiextensions.Definitions()
	d := definition("one", "two")
	p := d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
	p["o"] = v1.JSONSchemaProps{Type: "object", Default: &v1.JSON{Raw: []byte(`{"a":2,"b":[1,2]}`)}}
	stored, err := k.Encode(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	p["o"] = v1.JSONSchemaProps{Type: "object", Default: &v1.JSON{Raw: []byte("{\n  \"b\": [1, 2],\n  \"a\": 2\n}")}}
	k.Default(d)
	if !k.Same(d, decoded(t, stored), "spec") {
		t.Error("white space in a default changes the definition")
	}
}
