package house_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite public.txt")

// mostNames is how many constants, variables, functions, methods and types the public packages may export together. It
// is a limit to be lowered: each name is a promise.
const mostNames = 600

// publicFile lists what the public packages export: a line for each name, with its signature.
const publicFile = "public.txt"

// TestWhatIsPublicIsWrittenDown compares the exported names of the public packages with public.txt, so that a change of
// what is promised is seen in review. `go test ./proof/house -rewrite` writes the file.
func TestWhatIsPublicIsWrittenDown(t *testing.T) {
	var lines []string
	for _, p := range publicPackages(t) {
		lines = append(lines, p.lines(t)...)
	}
	fields := 0
	for _, line := range lines {
		if strings.Contains(line, ": field ") {
			fields++
		}
	}
	names := len(lines) - fields
	t.Logf("%d exported names, and %d fields", names, fields)
	if names > mostNames {
		t.Errorf("the public packages export %d names, more than %d: make internal what is not promised", names, mostNames)
	}
	now := strings.Join(lines, "\n") + "\n"
	if *rewrite {
		if err := os.WriteFile(publicFile, []byte(now), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(publicFile)
	if err != nil {
		t.Fatal(err)
	}
	was := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for _, line := range lines {
		if !slices.Contains(was, line) {
			t.Errorf("not in %s: %s", publicFile, line)
		}
	}
	for _, line := range was {
		if !slices.Contains(lines, line) {
			t.Errorf("only in %s: %s", publicFile, line)
		}
	}
}

// TestNothingPublicShowsATypeOfAnInternalPackage reads the declarations of all exported names: their types, parameters,
// results and exported fields.
func TestNothingPublicShowsATypeOfAnInternalPackage(t *testing.T) {
	for _, p := range publicPackages(t) {
		for _, shown := range p.internalTypes() {
			t.Errorf("%s: %s", p.path, shown)
		}
	}
}

func TestTypesOfInternalPackagesAreFound(t *testing.T) {
	const header = `package p; import ("example.com/x/internal/y"; z "example.com/x/internal"; "time"); `
	for source, want := range map[string]int{
		`func F(y.T) (a, b z.T)`:                     2,
		`func (t T) M(func([]y.T) map[string]*z.T)`:  2,
		`func (t u) M(y.T); func f(y.T)`:             0,
		`type T struct { y.T; A, b z.T; c y.T }`:     2,
		`type T struct { A struct{ b y.T; C y.T } }`: 1,
		`type T interface { M(y.T); y.I }`:           2,
		`type T = y.T; var V y.T; var v y.T`:         2,
		`var V = y.F(); const C = y.C`:               2,
		`var V error = y.F()`:                        0,
		`func (t *t[T]) M(y.T)`:                      0,
		`type T time.Duration; func F(time.Time)`:    0,
	} {
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, "p.go", header+source, 0)
		if err != nil {
			t.Fatal(err)
		}
		p := public{path: "p", files: files, parsed: []*ast.File{f}}
		if found := p.internalTypes(); len(found) != want {
			t.Errorf("%s: %q, want %d", source, found, want)
		}
	}
}

// public is a package that anybody may import.
type public struct {
	path   string
	files  *token.FileSet
	parsed []*ast.File
}

// ours are directories of programs, tests and examples, which are not for import.
var ours = []string{"cmd", "bench", "proof", "examples"}

// publicPackages parses the packages outside of internal that are no programs.
func publicPackages(t *testing.T) []*public {
	t.Helper()
	byDirectory := map[string]*public{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(path, root), "/"))
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "internal" || d.Name() == "testdata" || slices.Contains(ours, name)) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		directory := filepath.ToSlash(filepath.Dir(name))
		p := byDirectory[directory]
		if p == nil {
			p = &public{path: directory, files: token.NewFileSet()}
			byDirectory[directory] = p
		}
		f, err := parser.ParseFile(p.files, path, nil, parser.ParseComments)
		if err == nil && f.Name.Name != "main" {
			p.parsed = append(p.parsed, f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []*public
	for _, p := range byDirectory {
		if len(p.parsed) > 0 {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *public) int { return strings.Compare(a.path, b.path) })
	return all
}

// lines returns a line for each exported name, with its signature. Fields of structs and methods of interfaces are
// names, too.
func (p *public) lines(t *testing.T) []string {
	t.Helper()
	d, err := doc.NewFromFiles(p.files, p.parsed, module+"/"+p.path)
	if err != nil {
		t.Fatal(err)
	}
	prefix := p.path + ": "
	if p.path == "." {
		prefix = "millrace: "
	}
	var all []string
	add := func(line string) { all = append(all, prefix+line) }
	values := func(some []*doc.Value) {
		for _, v := range some {
			for _, s := range v.Decl.Specs {
				p.addValue(v.Decl.Tok.String(), s.(*ast.ValueSpec), add)
			}
		}
	}
	functions := func(some []*doc.Func) {
		for _, f := range some {
			if d := *f.Decl; ast.IsExported(d.Name.Name) {
				d.Doc, d.Body = nil, nil
				add(p.text(&d))
			}
		}
	}
	values(d.Consts)
	values(d.Vars)
	functions(d.Funcs)
	for _, of := range d.Types {
		for _, s := range of.Decl.Specs {
			p.addType(s.(*ast.TypeSpec), add)
		}
		values(of.Consts)
		values(of.Vars)
		functions(of.Funcs)
		functions(of.Methods)
	}
	slices.Sort(all)
	return all
}

func (p *public) addValue(word string, s *ast.ValueSpec, add func(string)) {
	for _, name := range s.Names {
		switch {
		case !name.IsExported():
		case s.Type != nil:
			add(word + " " + name.Name + " " + p.text(s.Type))
		default:
			add(word + " " + name.Name)
		}
	}
}

// addType adds a type, and the exported fields of a struct or the methods of an interface.
func (p *public) addType(s *ast.TypeSpec, add func(string)) {
	if !s.Name.IsExported() {
		return
	}
	head := *s
	head.Doc, head.Comment = nil, nil
	var inside *ast.FieldList
	word := ""
	switch of := s.Type.(type) {
	case *ast.StructType:
		head.Type, inside, word = &ast.StructType{Fields: &ast.FieldList{}}, of.Fields, "field"
	case *ast.InterfaceType:
		head.Type, inside, word = &ast.InterfaceType{Methods: &ast.FieldList{}}, of.Methods, "method"
	}
	add("type " + p.text(&head))
	if inside == nil {
		return
	}
	for _, f := range inside.List {
		kind := p.text(f.Type)
		if len(f.Names) == 0 {
			add(word + " " + s.Name.Name + "." + kind)
		}
		for _, name := range f.Names {
			if name.IsExported() {
				add(word + " " + s.Name.Name + "." + name.Name + " " + kind)
			}
		}
	}
}

// text prints a node on one line.
func (p *public) text(n any) string {
	var b strings.Builder
	if err := printer.Fprint(&b, token.NewFileSet(), n); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// internalTypes returns where exported declarations mention an internal package, other than in the bodies of functions.
func (p *public) internalTypes() []string {
	var found []string
	for _, f := range p.parsed {
		internal := map[string]bool{}
		for _, i := range f.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			name := path[strings.LastIndex(path, "/")+1:]
			if i.Name != nil {
				name = i.Name.Name
			}
			internal[name] = slices.Contains(strings.Split(path, "/"), "internal")
		}
		for _, d := range f.Decls {
			for _, n := range exposed(d) {
				ast.Inspect(n, func(n ast.Node) bool {
					if of, ok := n.(*ast.StructType); ok {
						of.Fields = exportedFields(of.Fields)
					}
					s, ok := n.(*ast.SelectorExpr)
					if !ok {
						return true
					}
					if pkg, ok := s.X.(*ast.Ident); ok && internal[pkg.Name] {
						found = append(found, fmt.Sprintf("%v shows %s.%s", p.files.Position(n.Pos()), pkg.Name, s.Sel.Name))
					}
					return true
				})
			}
		}
	}
	return found
}

// exposed returns what a reader of the documentation sees of a declaration.
func exposed(d ast.Decl) (all []ast.Node) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || receiverIsExported(d.Recv)) {
			all = append(all, d.Type)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					all = append(all, s.Type)
				}
			case *ast.ValueSpec:
				switch {
				case !slices.ContainsFunc(s.Names, func(n *ast.Ident) bool { return n.IsExported() }):
				case s.Type != nil:
					all = append(all, s.Type) // what it is set to is nobody's business
				default:
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// receiverIsExported reports whether the type of a receiver is: the first name in *T[P].
func receiverIsExported(r *ast.FieldList) bool {
	var first *ast.Ident
	ast.Inspect(r.List[0].Type, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok && first == nil {
			first = name
		}
		return first == nil
	})
	return first.IsExported()
}

// exportedFields leaves out the fields that nobody sees. Embedded types are seen: their methods are the struct's.
func exportedFields(all *ast.FieldList) *ast.FieldList {
	kept := &ast.FieldList{}
	for _, f := range all.List {
		if len(f.Names) == 0 || slices.ContainsFunc(f.Names, func(n *ast.Ident) bool { return n.IsExported() }) {
			kept.List = append(kept.List, f)
		}
	}
	return kept
}
