package builtin

import (
	"testing"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func TestObjectsAreTheSameInEveryVersion(t *testing.T) {
	resourcetest.Versions(t, Kinds(), "resource.k8s.io/v1beta1")
}

func TestEveryKindHasItsPlace(t *testing.T) {
	c, err := resource.NewCatalogue(Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	prefixes := map[string]string{}
	for _, k := range c.Kinds() {
		if other, taken := prefixes[k.Prefix]; taken && k.Group != "" {
			t.Errorf("%s and %s are stored in the same place", k.Kind, other)
		}
		prefixes[k.Prefix] = k.Kind
		if k.Row != nil && len(k.Columns) == 0 {
			t.Errorf("%s has rows and no columns", k.Kind)
		}
	}
}
