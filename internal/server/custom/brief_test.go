package custom

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/protobuf"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// stored returns a definition as it is stored. Its versions have schemas with these descriptions; an empty one has
// none.
func stored(t *testing.T, descriptions ...string) ([]byte, *v1.CustomResourceDefinition) {
	t.Helper()
	def := &v1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com", Labels: map[string]string{"a": "b"}},
		Spec: v1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: v1.NamespaceScoped, Names: v1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
			Conversion: &v1.CustomResourceConversion{Strategy: v1.NoneConverter},
		},
		Status: v1.CustomResourceDefinitionStatus{StoredVersions: []string{"v0"}},
	}
	for i, text := range descriptions {
		v := v1.CustomResourceDefinitionVersion{
			Name: "v" + string(rune('0'+i)), Served: true, Storage: i == 0, Subresources: &v1.CustomResourceSubresources{Status: &v1.CustomResourceSubresourceStatus{}},
			SelectableFields: []v1.SelectableField{{JSONPath: ".spec.a"}},
		}
		if text != "" {
			v.Schema = &v1.CustomResourceValidation{OpenAPIV3Schema: &v1.JSONSchemaProps{Type: "object", Description: text}}
		}
		def.Spec.Versions = append(def.Spec.Versions, v)
	}
	raw, err := def.Marshal()
	return enveloped(t, "v1", raw, err), def
}

// enveloped returns a definition's message as it is stored.
func enveloped(t *testing.T, version string, message []byte, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	whole := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "apiextensions.k8s.io/" + version, Kind: "CustomResourceDefinition"}, Raw: message}
	text, err := whole.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("k8s\x00"), text...)
}

func TestASchemaOfAllVersionsHasTheDigestThatItHasInEachVersion(t *testing.T) {
	value, def := stored(t, "one", "one")
	_, want, err := withoutSchemas(value)
	if err != nil {
		t.Fatal(err)
	}
	old := &v1beta1.CustomResourceDefinition{ObjectMeta: def.ObjectMeta}
	old.Spec.Group, old.Spec.Version = def.Spec.Group, "v0"
	old.Spec.Validation = &v1beta1.CustomResourceValidation{OpenAPIV3Schema: &v1beta1.JSONSchemaProps{Type: "object", Description: "one"}}
	old.Spec.Versions = []v1beta1.CustomResourceDefinitionVersion{{Name: "v0", Served: true, Storage: true}, {Name: "v1", Served: true}}
	raw, err := old.Marshal()
	brief, got, err := withoutSchemas(enveloped(t, "v1beta1", raw, err))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("digests %x, want %x: %v", got, want, err)
	}
	if bytes.Contains(brief, []byte("one")) {
		t.Error("the brief definition has a schema")
	}
}

func TestABriefDefinitionHasAllButItsSchemas(t *testing.T) {
	value, want := stored(t, "one", "", "three")
	before := bytes.Clone(value)
	brief, digests, err := withoutSchemas(value)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(value, before) {
		t.Error("the stored bytes have changed")
	}
	var whole runtime.Unknown
	if err := whole.Unmarshal(bytes.TrimPrefix(brief, []byte("k8s\x00"))); err != nil {
		t.Fatal(err)
	}
	got := &v1.CustomResourceDefinition{}
	if err := got.Unmarshal(whole.Raw); err != nil {
		t.Fatal(err)
	}
	for i := range want.Spec.Versions {
		want.Spec.Versions[i].Schema = nil
	}
	if !equality.Semantic.DeepEqual(got, want) || whole.Kind != "CustomResourceDefinition" {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if len(digests) != 3 {
		t.Fatalf("%d digests", len(digests))
	}
	other, _ := stored(t, "one", "two", "four")
	_, changed, err := withoutSchemas(other)
	if err != nil {
		t.Fatal(err)
	}
	if changed[0] != digests[0] || changed[1] == digests[1] || changed[2] == digests[2] {
		t.Error("digests do not tell which schemas are the same")
	}
}

func TestADefinitionThatIsCutOffIsAnError(t *testing.T) {
	value, _ := stored(t, "one", "two")
	for n := len(protobuf.Magic) + 1; n < len(value); n++ {
		brief, _, err := withoutSchemas(value[:n])
		if err == nil && len(brief) > n {
			t.Errorf("of %d bytes %d are left", n, len(brief))
		}
	}
	if _, _, err := withoutSchemas(value[:len(value)/2]); err == nil {
		t.Error("half a definition can be read")
	}
}

func TestADefinitionInJSONIsBriefToo(t *testing.T) {
	schema := func(text string) string { return `{"openAPIV3Schema":{"type":"object","description":"` + text + `"}}` }
	value := `{"kind":"CustomResourceDefinition", "metadata":{"name":"x"},"spec":{"group":"g","validation":` + schema("one") +
		`,"versions":[{"name":"v1","served":true},{"name":"v2","schema":` + schema("two") + `,"storage":true}]},"status":{}}` + "\n"
	brief, digests, err := withoutSchemas([]byte(value))
	const want = `{"kind":"CustomResourceDefinition","metadata":{"name":"x"},"spec":{"group":"g","versions":[{"name":"v1","served":true},{"name":"v2","storage":true}]},"status":{}}`
	if string(brief) != want || err != nil {
		t.Errorf("%s, %v", brief, err)
	}
	if !slices.Equal(digests, []digest{sha256.Sum256([]byte(schema("one"))), sha256.Sum256([]byte(schema("two")))}) {
		t.Errorf("digests %x", digests)
	}
	for n := range value {
		if brief, _, err := withoutSchemas([]byte(value[:n])); err != nil || n < len(value)-1 && json.Valid(brief) {
			t.Errorf("of %q is left %q: %v", value[:n], brief, err)
		}
	}
}
