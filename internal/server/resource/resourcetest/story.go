package resourcetest

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/corpus"
	"github.com/millrace/millrace/internal/server/resource"
)

// Story is a recorded story.
func Story(t testing.TB, name string) corpus.Story {
	t.Helper()
	s, ok := corpus.Stories()[name]
	if !ok {
		t.Fatalf("no story %q was recorded", name)
	}
	return s
}

// at returns group, version and resource from the path of a collection.
func at(path string) schema.GroupVersionResource {
	path, _, _ = strings.Cut(path, "?")
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] == "api" {
		parts[0] = ""
	} else {
		parts = parts[1:]
	}
	r := schema.GroupVersionResource{Group: parts[0], Version: parts[1]}
	rest := parts[2:]
	if rest[0] == "namespaces" && len(rest) > 2 {
		rest = rest[2:]
	}
	r.Resource = strings.Join(rest, "/")
	return r
}

func faces(t testing.TB, kinds []*resource.Kind) *resource.Catalogue {
	t.Helper()
	c, err := resource.NewCatalogue(kinds...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
