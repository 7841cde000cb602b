package house_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// linked are the files that docs/unsafe.md names.
var linked = regexp.MustCompile(`\]\(\.\./([^)]*\.go)\)`)

// leaves are the words by which a file leaves the type system.
var leaves = regexp.MustCompile(`(?m)^\s*"unsafe"$|^import "unsafe"$|^//go:linkname |FieldByName\("[a-z]`)

func TestWhereTheTypeSystemIsLeftIsListed(t *testing.T) {
	const page = "docs/unsafe.md"
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range linked.FindAllStringSubmatch(string(text), -1) {
		listed[m[1]] = true
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file := filepath.ToSlash(strings.TrimPrefix(path, root+"/"))
		if uses := leaves.Match(source); uses && !listed[file] {
			t.Errorf("%s uses unsafe, go:linkname or a private field: say in %s what that wins and what notices a change, or write it without", file, page)
		} else if !uses && listed[file] {
			t.Errorf("%s names %s, which stays within the type system", page, file)
		}
		delete(listed, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for file := range listed {
		t.Errorf("%s names %s, which does not exist", page, file)
	}
}
