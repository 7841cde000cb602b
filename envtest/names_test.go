package envtest_test

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"strings"
	"testing"

	theirs "sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/millrace/millrace/envtest"
)

// exported are the names that a package exports.
func exported(t *testing.T, directory string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	noTests := func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }
	packages, err := parser.ParseDir(token.NewFileSet(), directory, noTests, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		for _, f := range p.Files {
			for _, d := range f.Decls {
				collect(d, names)
			}
		}
	}
	return names
}

func collect(d ast.Decl, names map[string]bool) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && d.Name.IsExported() {
			names[d.Name.Name] = true
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names[s.Name.Name] = s.Name.IsExported()
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names[n.Name] = n.IsExported()
				}
			}
		}
	}
}

func TestEveryNameOfControllerRuntimesEnvtestIsThere(t *testing.T) {
	at, err := build.Import("sigs.k8s.io/controller-runtime/pkg/envtest", ".", build.FindOnly)
	if err != nil {
		t.Fatal(err)
	}
	ours := exported(t, ".")
	count := 0
	for name, is := range exported(t, at.Dir) {
		if is {
			count++
		}
		if is && !ours[name] {
			t.Errorf("%s is missing", name)
		}
	}
	if count < 20 {
		t.Errorf("only %d names were found there", count)
	}
}

func TestEveryFieldAndMethodIsThere(t *testing.T) {
	for _, pair := range []struct{ theirs, ours any }{
		{theirs.Environment{}, envtest.Environment{}},
		{theirs.CRDInstallOptions{}, envtest.CRDInstallOptions{}},
		{theirs.WebhookInstallOptions{}, envtest.WebhookInstallOptions{}},
		{theirs.ControlPlane{}, envtest.ControlPlane{}},
		{theirs.APIServer{}, envtest.APIServer{}},
		{theirs.Etcd{}, envtest.Etcd{}},
		{theirs.SecureServing{}, envtest.SecureServing{}},
		{theirs.ListenAddr{}, envtest.ListenAddr{}},
		{theirs.User{}, envtest.User{}},
		{theirs.AuthenticatedUser{}, envtest.AuthenticatedUser{}},
		{theirs.Arguments{}, envtest.Arguments{}},
	} {
		their, our := reflect.TypeOf(pair.theirs), reflect.TypeOf(pair.ours)
		for i := range their.NumField() {
			f := their.Field(i)
			own, ok := our.FieldByName(f.Name)
			if f.IsExported() && (!ok || shape(own.Type) != shape(f.Type)) {
				t.Errorf("%s.%s is %v there, and %v here", their.Name(), f.Name, f.Type, own.Type)
			}
		}
		for i := range reflect.PointerTo(their).NumMethod() {
			m := reflect.PointerTo(their).Method(i)
			own, ok := reflect.PointerTo(our).MethodByName(m.Name)
			if !ok || shape(own.Type) != shape(m.Type) {
				t.Errorf("%s.%s is %v there, and %v here", their.Name(), m.Name, m.Type, own.Type)
			}
		}
	}
}

// shape is a type as a suite writes it.
func shape(t reflect.Type) string {
	text := t.String()
	for _, directory := range []string{"controlplane.", "process."} {
		text = strings.ReplaceAll(text, directory, "envtest.")
	}
	return text
}
