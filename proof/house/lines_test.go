package house_test

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// mostColumns is how wide a line may be, with tabs of four columns. Lines up to 120 columns are the rule; this is where
// nobody reads to the end any more.
const mostColumns = 200

// TestNoLineIsTooLongToRead leaves out tests, whose tables have long lines.
func TestNoLineIsTooLongToRead(t *testing.T) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		for n := 1; lines.Scan(); n++ {
			if width := utf8.RuneCount(lines.Bytes()) + 3*strings.Count(lines.Text(), "\t"); width > mostColumns {
				t.Errorf("%s:%d has %d columns, more than %d", strings.TrimPrefix(path, root+"/"), n, width, mostColumns)
			}
		}
		return lines.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}
