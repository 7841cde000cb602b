package resource_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
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
