// Command factsgen extracts from the source code of the API's types what their field markers say and reflection cannot
// see: kinds of lists and their keys, defaults, optional and required fields, enumerations.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

func main() {
	var out strings.Builder
	for _, p := range []struct{ module, pattern string }{
		{"k8s.io/api", "*/v[12]"}, {"k8s.io/apimachinery", "pkg/apis/meta/v1"},
		{"k8s.io/apiextensions-apiserver", "pkg/apis/apiextensions/v1"}, {"k8s.io/kube-aggregator", "pkg/apis/apiregistration/v1"},
	} {
		root := directory(p.module)
		found, err := filepath.Glob(filepath.Join(root, p.pattern))
		if err != nil {
			log.Fatal(err)
		}
		for _, dir := range found {
			read(dir, p.module+strings.TrimPrefix(dir, root)).write(&out)
		}
	}
	if err := os.WriteFile("facts.txt", []byte(out.String()), 0o644); err != nil {
		log.Fatal(err)
	}
}

func directory(module string) string {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		log.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// source holds the facts of one package.
type source struct {
	path  string
	lines []string
	enums map[string][]string
}

func read(dir, path string) *source {
	packages, err := parser.ParseDir(token.NewFileSet(), dir, func(i fs.FileInfo) bool {
		return !strings.HasSuffix(i.Name(), "_test.go") && !strings.Contains(i.Name(), "generated")
	}, parser.ParseComments)
	if err != nil {
		log.Fatal(err)
	}
	s := &source{path: path, enums: map[string][]string{}}
	for _, p := range packages {
		for _, name := range slices.Sorted(keys(p.Files)) {
			for _, d := range p.Files[name].Decls {
				if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
					s.types(g)
				}
			}
		}
		for _, name := range slices.Sorted(keys(p.Files)) {
			for _, d := range p.Files[name].Decls {
				if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
					s.constants(g)
				}
			}
		}
	}
	return s
}

func keys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// markers returns the comment lines that begin with a plus sign.
func markers(groups ...*ast.CommentGroup) map[string][]string {
	out := map[string][]string{}
	for _, g := range groups {
		if g == nil {
			continue
		}
		for _, c := range g.List {
			text := strings.TrimSpace(strings.TrimPrefix(c.Text, "//"))
			if rest, ok := strings.CutPrefix(text, "+"); ok {
				name, value, _ := strings.Cut(rest, "=")
				out[name] = append(out[name], strings.TrimSpace(value))
			}
		}
	}
	return out
}

func (s *source) types(g *ast.GenDecl) {
	for _, spec := range g.Specs {
		t := spec.(*ast.TypeSpec)
		m := markers(g.Doc, t.Doc)
		if _, isEnum := m["enum"]; isEnum {
			s.enums[t.Name.Name] = []string{}
		}
		st, ok := t.Type.(*ast.StructType)
		if !ok {
			continue
		}
		var fields []string
		for _, f := range st.Fields.List {
			if line := field(f); line != "" {
				fields = append(fields, line)
			}
		}
		_, atomic := first(m, "structType"), first(m, "structType") == "atomic" || first(m, "mapType") == "atomic"
		if atomic || len(fields) > 0 {
			head := "type " + s.path + "." + t.Name.Name
			if atomic {
				head += " atomic"
			}
			s.lines = append(append(s.lines, head), fields...)
		}
	}
}

func first(m map[string][]string, name string) string {
	if v := m[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func field(f *ast.Field) string {
	if f.Tag == nil {
		return ""
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		log.Fatal(err)
	}
	name, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	if name == "" || name == "-" {
		return ""
	}
	m, line := markers(f.Doc), ""
	if v := first(m, "listType"); v != "" {
		line += " list=" + v
	}
	if v := m["listMapKey"]; len(v) > 0 {
		line += " keys=" + strings.Join(v, ",")
	}
	if first(m, "mapType") == "atomic" || first(m, "structType") == "atomic" {
		line += " atomic"
	}
	if v := first(m, "default"); v != "" && !strings.HasPrefix(v, "ref(") {
		line += " default=" + v
	}
	omits := strings.Contains(options, "omitempty")
	if _, ok := m["optional"]; ok && !omits {
		line += " optional"
	}
	if _, ok := m["required"]; ok && omits {
		line += " required"
	}
	if line == "" {
		return ""
	}
	return "\t" + name + line
}

func (s *source) constants(g *ast.GenDecl) {
	for _, spec := range g.Specs {
		v := spec.(*ast.ValueSpec)
		id, ok := v.Type.(*ast.Ident)
		if !ok || len(v.Values) != 1 {
			continue
		}
		values, isEnum := s.enums[id.Name]
		literal, isLiteral := v.Values[0].(*ast.BasicLit)
		if !isEnum || !isLiteral {
			continue
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			log.Fatal(err)
		}
		if !slices.Contains(values, text) {
			s.enums[id.Name] = append(values, text)
		}
	}
}

func (s *source) write(out *strings.Builder) {
	for _, l := range s.lines {
		fmt.Fprintln(out, l)
	}
	for _, name := range slices.Sorted(keys(s.enums)) {
		slices.Sort(s.enums[name])
		fmt.Fprintf(out, "enum %s.%s %q\n", s.path, name, s.enums[name])
	}
}
