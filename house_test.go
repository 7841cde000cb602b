package millrace_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/millrace/millrace"

// rooms are the server wing from top to bottom: a package may import those behind it, never one before it.
var rooms = []string{"openapi", "metrics", "connections", "actions", "apiserver", "admission", "allocation", "registry", "ownership", "wire", "resource", "watchcache", "store"}

// The client wing works on any Kubernetes and knows nothing of the server wing.
var clientWing = []string{"controllers", "scheduler", "kubelet", "loop", "queue", "informer", "watch", "examples"}

// pkg is one package of the module.
type pkg struct {
	path    string // below the module
	doc     bool
	imports []string // of the code, without tests
}

// packages parses the module's packages.
func packages(t *testing.T) []pkg {
	t.Helper()
	byFolder := map[string]*pkg{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && (strings.HasPrefix(name, ".") && name != "." || name == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(filepath.Dir(path))
		p, ok := byFolder[folder]
		if !ok {
			p = &pkg{path: folder}
			byFolder[folder] = p
		}
		p.doc = p.doc || f.Doc != nil
		for _, i := range f.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			p.imports = append(p.imports, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var out []pkg
	for _, p := range byFolder {
		out = append(out, *p)
	}
	return out
}

func first(path string) string {
	name, _, _ := strings.Cut(path, "/")
	return name
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range packages(t) {
		if !p.doc {
			t.Errorf("%s has no package doc", p.path)
		}
	}
}

func TestArrowsPointDown(t *testing.T) {
	for _, p := range packages(t) {
		from := slices.Index(rooms, first(p.path))
		for _, i := range p.imports {
			inner, ours := strings.CutPrefix(i, module+"/")
			if !ours {
				continue
			}
			to := slices.Index(rooms, first(inner))
			switch {
			case from >= 0 && to >= 0 && to < from:
				t.Errorf("%s imports %s, which stands above it", p.path, inner)
			case from >= 0 && slices.Contains(clientWing, first(inner)) && first(inner) != "watch":
				t.Errorf("%s of the server wing imports %s of the client wing", p.path, inner)
			case slices.Contains(clientWing, first(p.path)) && to >= 0:
				t.Errorf("%s of the client wing imports %s of the server wing", p.path, inner)
			}
		}
	}
}

func TestForbiddenImports(t *testing.T) {
	for _, p := range packages(t) {
		for _, i := range p.imports {
			switch {
			case strings.HasPrefix(i, "k8s.io/kubernetes"), strings.HasPrefix(i, "k8s.io/apiserver"):
				t.Errorf("%s imports %s", p.path, i)
			case i == "k8s.io/client-go/tools/cache" && !strings.HasPrefix(p.path, "informer/"):
				t.Errorf("%s imports client-go's cache, which the informer package replaces", p.path)
			}
		}
	}
}

func TestThePagesThatPeopleLookForAreThere(t *testing.T) {
	for _, name := range []string{"README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"} {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("%s is missing", name)
		}
	}
}
