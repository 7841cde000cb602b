package resource_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/resource"
)

func kindOf(version string, identity *resource.Identity, life *resource.Life) *resource.Kind {
	k := resource.Define(resource.Description[*corev1.ConfigMap]{Group: "example.com", Version: version, Kind: "Tab", Resource: "tabs"})
	if identity != nil {
		k.Identity = identity
	}
	k.Life = life
	return k
}

func isOver(l *resource.Life) bool {
	over := make(chan struct{})
	stop := l.OnEnd(func() { close(over) })
	if stop() {
		return false
	}
	<-over
	return true
}

func TestAnExchangeEndsOnlyTheLivesThatAreNotCarriedOn(t *testing.T) {
	first, second := resource.NewLife(), resource.NewLife()
	one := kindOf("v1", nil, first)
	two := kindOf("v2", one.Identity, second)
	c, err := resource.NewCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	tabs := schema.GroupResource{Group: "example.com", Resource: "tabs"}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Exchange(tabs, one, two))
	must(c.Exchange(tabs, kindOf("v1", one.Identity, first), kindOf("v2", one.Identity, second)))
	if isOver(first) || isOver(second) {
		t.Error("a life ended that was carried on")
	}
	must(c.Exchange(tabs, kindOf("v1", one.Identity, first)))
	if isOver(first) || !isOver(second) {
		t.Error("a version that is no longer served lives on, or the other one does not")
	}
	if _, served := c.Face(schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "tabs"}); served {
		t.Error("a version that went is still served")
	}
	must(c.Exchange(tabs))
	if _, served := c.Kind(tabs); served || !isOver(first) || len(c.Kinds()) != 0 {
		t.Error("a kind that went is still there")
	}
}

func TestAnExchangeThatCannotBeChangesNothing(t *testing.T) {
	one := kindOf("v1", nil, nil)
	c, err := resource.NewCatalogue(one)
	if err != nil {
		t.Fatal(err)
	}
	before := c.Version()
	if err := c.Exchange(one.GroupResource(), one, kindOf("v2", nil, nil)); err == nil {
		t.Error("two identities are served at one place")
	}
	if err := c.Exchange(schema.GroupResource{Resource: "other"}, one); err == nil {
		t.Error("a kind is served at another place than its own")
	}
	if c.Version() != before {
		t.Error("the catalogue has changed")
	}
}

func TestNoCustomKindTakesTheNameOfABuiltInOne(t *testing.T) {
	policies := resource.Define(resource.Description[*corev1.ConfigMap]{
		Group: "example.com", Version: "v1", Kind: "Policy", Resource: "policies", ShortNames: []string{"pol"},
		Also: []resource.Serving[*corev1.ConfigMap]{{Group: "other.example.com", Version: "v1beta1", Kind: "Rule", Optional: true,
			New: func() runtime.Object { return &corev1.ConfigMap{} }}},
	})
	c, err := resource.NewCatalogue(policies)
	if err != nil {
		t.Fatal(err)
	}
	before := c.Version()
	custom := func(group, version, kind, plural string) *resource.Kind {
		k := resource.Define(resource.Description[*corev1.ConfigMap]{Group: group, Version: version, Kind: kind, Resource: plural})
		k.Custom = true
		return k
	}
	for what, k := range map[string]*resource.Kind{
		"its place":                        custom("example.com", "v1", "Policy", "policies"),
		"its plural in another version":    custom("example.com", "v9", "Other", "policies"),
		"its singular":                     custom("example.com", "v1", "Other", "policy"),
		"its short name":                   custom("example.com", "v1", "Other", "pol"),
		"its kind":                         custom("example.com", "v1", "Policy", "others"),
		"the kind of its lists":            custom("example.com", "v1", "PolicyList", "others"),
		"a version of it that is not on":   custom("other.example.com", "v1beta1", "Other", "policies"),
		"its kind in a group of its other": custom("other.example.com", "v9", "Rule", "others"),
	} {
		if err := c.Exchange(k.GroupResource(), k); err == nil {
			t.Errorf("a custom kind has taken %s", what)
		}
	}
	if err := c.Exchange(policies.GroupResource()); err == nil {
		t.Error("a built-in kind was withdrawn")
	}
	if c.Version() != before {
		t.Error("the catalogue has changed")
	}
	other := custom("example.com", "v1", "Other", "others")
	if err := c.Exchange(other.GroupResource(), other); err != nil {
		t.Errorf("another kind of the group: %v", err)
	}
}
