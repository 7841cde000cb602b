package systems

import (
	"os"
	"path/filepath"
	"testing"
)

// The gate compiles and runs everything for linux/amd64.
var others = []target{
	{"linux", "arm64"},
	{"darwin", "arm64"},
	{"darwin", "amd64"},
	{"windows", "amd64"},
}

func TestEverythingHasItsTypesOnEachSystem(t *testing.T) {
	read := newSources()
	for _, on := range others {
		t.Run(on.os+"/"+on.arch, func(t *testing.T) {
			packages, err := list(t.Context(), "../..", on)
			if err != nil {
				t.Fatal(err)
			}
			for _, mistake := range check(read, packages, on) {
				t.Error(mistake)
			}
		})
	}
}

func TestWhatOneSystemLacksIsFoundInCodeAndInTests(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module example.com/one\n\ngo 1.26\n",
		"one.go":           "package one\n\nimport \"syscall\"\n\nvar Child = syscall.SIGCHLD\n",
		"one_test.go":      "package one\n\nimport \"syscall\"\n\nvar stops = syscall.SIGSTOP\n",
		"outside_test.go":  "package one_test\n\nimport (\n\t\"syscall\"\n\n\t\"example.com/one\"\n)\n\nvar goesOn, child = syscall.SIGCONT, one.Child\n",
		"one_windows.go":   "package one\n\nfunc onWindows() {}\n",
		"other_test.go":    "//go:build !windows\n\npackage one\n\nfunc onWindows() { var unix string = Child }\n",
		"one/inner/one.go": "package inner\n\nimport \"example.com/one\"\n\nvar Child = one.Child\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := newSources()
	for on, want := range map[target]int{{"windows", "amd64"}: 3, {"darwin", "arm64"}: 2} { // on darwin the variable is unused, and no string
		packages, err := list(t.Context(), dir, on)
		if err != nil {
			t.Fatal(err)
		}
		if found := check(read, packages, on); len(found) != want {
			t.Errorf("%s: %d mistakes, want %d: %q", on.os, len(found), want, found)
		}
	}
}
