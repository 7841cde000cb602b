package resourcetest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/server/resource"
)

// Step is one request of a story and its recorded answer.
type Step struct {
	Name   string          `json:"name"`
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Body   json.RawMessage `json:"body"`
	Want   struct {
		Status   int             `json:"status"`
		Body     json.RawMessage `json:"body"`
		Warnings []string        `json:"warnings"`
	} `json:"want"`
}

// Story reads a recorded story; the test is skipped if there is no corpus.
func Story(t testing.TB, name string) []Step {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(corpus(t), name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var steps []Step
	if err := json.Unmarshal(b, &steps); err != nil {
		t.Fatal(err)
	}
	return steps
}

func corpus(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("MILLRACE_CORPUS"); dir != "" {
		return dir
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			corpus := filepath.Join(dir, "..", "shared", "corpus")
			if _, err := os.Stat(corpus); err == nil {
				return corpus
			}
		}
	}
	t.Skip("no recorded corpus here")
	return ""
}

// at reads group, version and resource out of a collection's path.
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
