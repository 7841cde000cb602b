package builtin

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/resource"
	"github.com/millrace/millrace/resource/resourcetest"
)

func TestEveryKindHasAPlaceOfItsOwn(t *testing.T) {
	if _, err := resource.NewCatalogue(Kinds()...); err != nil {
		t.Fatal(err)
	}
}

func TestKindsAreNamedAsDiscoveryOfKubernetesNamesThem(t *testing.T) {
	c, err := resource.NewCatalogue(Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range resourcetest.Story(t, "discovery") {
		var list metav1.APIResourceList
		if json.Unmarshal(s.Want.Body, &list) != nil || list.Kind != "APIResourceList" {
			continue
		}
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			t.Run(list.GroupVersion+"/"+r.Name, func(t *testing.T) {
				name, sub, _ := strings.Cut(r.Name, "/")
				f, ok := c.Face(gv.WithResource(name))
				if !ok {
					t.Fatal("not served")
				}
				same(t, "namespaced", f.Of.Namespaced, r.Namespaced)
				if sub == "" {
					sameMain(t, f, r)
				} else {
					sameSub(t, f, sub, r)
				}
			})
		}
	}
}

func sameMain(t *testing.T, f *resource.Face, r metav1.APIResource) {
	same(t, "kind", f.Kind, r.Kind)
	same(t, "singular", f.Of.Singular, r.SingularName)
	sameList(t, "verbs", f.Of.Verbs, r.Verbs)
	sameList(t, "short names", f.Of.ShortNames, r.ShortNames)
	sameList(t, "categories", f.Of.Categories, r.Categories)
}

func sameSub(t *testing.T, f *resource.Face, sub string, r metav1.APIResource) {
	if v, ok := f.Of.Views[sub]; ok {
		same(t, "kind", f.Kind, r.Kind)
		sameList(t, "verbs", v.Verbs, r.Verbs)
		return
	}
	if sub == "scale" {
		same(t, "scale", f.Of.Scale != nil, true)
		return
	}
	i := slices.IndexFunc(f.Of.Actions, func(a resource.Action) bool { return a.Name == sub })
	if i < 0 {
		t.Fatal("not served")
	}
	same(t, "kind", f.Of.Actions[i].Body.Kind, r.Kind)
	sameList(t, "verbs", f.Of.Actions[i].Verbs, r.Verbs)
}

func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func sameList(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
