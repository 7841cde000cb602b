package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// processSettings are functions that change something of the whole process, by the package that has them. A library
// must not call them: the process belongs to whoever embeds a cluster.
var processSettings = map[string][]string{
	"runtime/debug":            {"SetGCPercent", "SetMaxStack", "SetMaxThreads", "SetMemoryLimit", "SetPanicOnFault", "SetTraceback"},
	"os":                       {"Setenv", "Unsetenv", "Clearenv", "Chdir"},
	"syscall":                  {"Setpriority", "Setrlimit", "Umask", "Chdir", "Nanosleep", "Setenv"},
	"golang.org/x/sys/unix":    {"Setpriority", "Setrlimit", "Umask", "Chdir", "Nanosleep", "Setenv", "SchedSetaffinity", "SchedSetAttr"},
	"log":                      {"SetOutput", "SetFlags", "SetPrefix"},
	"log/slog":                 {"SetDefault", "SetLogLoggerLevel"},
	"os/signal":                {"Ignore", "Notify", "NotifyContext", "Reset"},
	"k8s.io/klog/v2":           {"SetLogger", "SetLoggerWithOptions", "SetSlogLogger", "SetOutput", "InitFlags", "LogToStderr"},
	"runtime":                  {"SetBlockProfileRate", "SetMutexProfileFraction", "SetCPUProfileRate"},
	"go.opentelemetry.io/otel": {"SetTracerProvider", "SetTextMapPropagator", "SetErrorHandler", "SetLogger"},
}

// programs are directories that are, or belong to, programs: they own their process.
var programs = []string{"cmd/", "bench/", "proof/", "examples/"}

func TestNoLibraryChangesSettingsOfItsProcess(t *testing.T) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(filepath.ToSlash(path), root+"/")
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || slices.Contains(programs, name+"/")) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, at := range changesOfTheProcess(f) {
			t.Errorf("%v changes a setting of the process", files.Position(at))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// changesOfTheProcess finds the calls in a file that change a setting of the process. A program's own file has none.
func changesOfTheProcess(f *ast.File) (found []token.Pos) {
	if f.Name.Name == "main" {
		return nil
	}
	imports := map[string]string{} // paths by the names that the file has for them
	for _, i := range f.Imports {
		path := strings.Trim(i.Path.Value, `"`)
		name := strings.TrimSuffix(path, "/v2")
		name = name[strings.LastIndex(name, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		imports[name] = path
	}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		of, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := of.X.(*ast.Ident)
		if !ok {
			return true
		}
		path := imports[pkg.Name]
		if slices.Contains(processSettings[path], of.Sel.Name) || path == "runtime" && of.Sel.Name == "GOMAXPROCS" && !onlyAsks(call) {
			found = append(found, call.Pos())
		}
		return true
	})
	return found
}

// onlyAsks reports whether a call of GOMAXPROCS changes nothing.
func onlyAsks(call *ast.CallExpr) bool {
	n, ok := call.Args[0].(*ast.BasicLit)
	return ok && n.Value == "0"
}

func TestChangesOfTheProcessAreFound(t *testing.T) {
	for source, want := range map[string]int{
		`package p; import "runtime"; func f() { runtime.GOMAXPROCS(0); runtime.GOMAXPROCS(4) }`:     1,
		`package p; import d "runtime/debug"; func f() { d.SetGCPercent(1); d.FreeOSMemory() }`:      1,
		`package p; import "os"; func f() { os.Getenv("A"); func() { _ = os.Setenv("A", "b") }() }`:  1,
		`package main; import "os"; func main() { os.Setenv("A", "b") }`:                             0,
		`package p; import "k8s.io/klog/v2"; func f() { klog.SetOutput(nil); klog.Background() }`:    1,
		`package p; type t struct{}; func (t) Setenv(string) {}; func f(os t) { os.Setenv("only") }`: 0,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", source, 0)
		if err != nil {
			t.Fatal(err)
		}
		if found := changesOfTheProcess(f); len(found) != want {
			t.Errorf("%d calls found in %s, want %d", len(found), source, want)
		}
	}
}
