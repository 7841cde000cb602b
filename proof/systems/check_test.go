package systems

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// target is a system and its processor.
type target struct{ os, arch string }

// pkg is a package, or one variant of it for a test, as `go list` tells of it.
type pkg struct {
	ImportPath, Dir  string
	GoFiles, Imports []string
	ImportMap        map[string]string
	Module           *struct{ Main bool }
	Error            *struct{ Err string }

	types *types.Package
	done  chan struct{} // closed when types is there
}

// ours reports whether the package belongs to the module that is checked.
func (p *pkg) ours() bool { return p.Module != nil && p.Module.Main }

// list returns the packages of the module in a directory, their tests, and all that they import.
func list(ctx context.Context, dir string, on target) ([]*pkg, error) {
	// The profile of cmd/millrace would make a second variant of every package.
	c := exec.CommandContext(ctx, "go", "list", "-e", "-pgo=off", "-deps", "-test", "-json=ImportPath,Dir,GoFiles,Imports,ImportMap,Module,Error", "./...")
	c.Dir = dir
	c.Env = append(os.Environ(), "GOOS="+on.os, "GOARCH="+on.arch, "CGO_ENABLED=0")
	var problems strings.Builder
	c.Stderr = &problems
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, problems.String())
	}
	var all []*pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := &pkg{done: make(chan struct{})}
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if !strings.HasSuffix(p.ImportPath, ".test") { // the main package that `go test` makes
			all = append(all, p)
		}
	}
}

// sources parses each file once for all systems.
type sources struct {
	files *token.FileSet

	mu     sync.Mutex
	parsed map[string]func() (*ast.File, error)
}

func newSources() *sources {
	return &sources{files: token.NewFileSet(), parsed: map[string]func() (*ast.File, error){}}
}

// parse returns the syntax of a file, without the bodies of functions if only declarations are asked for.
func (s *sources) parse(path string, declarations bool) (*ast.File, error) {
	s.mu.Lock()
	once, known := s.parsed[path]
	if !known {
		once = sync.OnceValues(func() (*ast.File, error) {
			f, err := parser.ParseFile(s.files, path, nil, parser.SkipObjectResolution)
			if f != nil && declarations {
				dropBodies(f)
			}
			return f, err
		})
		s.parsed[path] = once
	}
	s.mu.Unlock()
	return once()
}

func dropBodies(f *ast.File) {
	for _, d := range f.Decls {
		if function, ok := d.(*ast.FuncDecl); ok {
			function.Body = nil
		}
	}
}

// checker checks the packages of one system, each after those that it imports, as many at a time as there are
// processors.
type checker struct {
	sources *sources
	sizes   types.Sizes
	byPath  map[string]*pkg
	turns   chan struct{}

	mu       sync.Mutex
	mistakes map[string]bool
}

// check returns the mistakes in the module's packages.
func check(read *sources, packages []*pkg, on target) []string {
	c := &checker{
		sources: read, sizes: types.SizesFor("gc", on.arch), byPath: map[string]*pkg{},
		turns: make(chan struct{}, runtime.GOMAXPROCS(0)), mistakes: map[string]bool{},
	}
	for _, p := range packages {
		c.byPath[p.ImportPath] = p
	}
	var all sync.WaitGroup
	for _, p := range packages {
		all.Go(func() { c.checkAfterImports(p) })
	}
	all.Wait()
	return slices.Sorted(maps.Keys(c.mistakes))
}

func (c *checker) checkAfterImports(p *pkg) {
	defer close(p.done)
	for _, path := range p.Imports {
		if imported := c.byPath[path]; imported != nil {
			<-imported.done
		}
	}
	c.turns <- struct{}{}
	defer func() { <-c.turns }()
	if p.ImportPath == "unsafe" {
		p.types = types.Unsafe
		return
	}
	if p.Error != nil {
		c.note(p, errors.New(p.Error.Err))
	}
	config := types.Config{
		Importer: importer{c, p}, Sizes: c.sizes, IgnoreFuncBodies: !p.ours(), Error: func(err error) { c.note(p, err) },
	}
	path, _, _ := strings.Cut(p.ImportPath, " ") // a variant has the test in brackets behind its path
	p.types, _ = config.Check(path, c.sources.files, c.parse(p), nil)
}

func (c *checker) parse(p *pkg) []*ast.File {
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := c.sources.parse(filepath.Join(p.Dir, name), !p.ours())
		if err != nil {
			c.note(p, err)
		}
		if f != nil {
			files = append(files, f)
		}
	}
	return files
}

// note keeps a mistake in a package of the module. Others are their authors', and some need a compiler to be complete.
func (c *checker) note(p *pkg, err error) {
	if p.ours() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mistakes[err.Error()] = true
	}
}

// importer finds what one package imports.
type importer struct {
	checker *checker
	by      *pkg
}

func (i importer) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if mapped, ok := i.by.ImportMap[path]; ok {
		path = mapped
	}
	if p := i.checker.byPath[path]; p != nil && p.types != nil {
		return p.types, nil
	}
	return nil, fmt.Errorf("%s is not there for this system", path)
}
