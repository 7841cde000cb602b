package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/internal/server/store"
)

func TestWhatIsForgottenIsInNoFileAndTheRestIsAsItWas(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprint("deleted=", gone), func(t *testing.T) { forgetOne(t, gone) })
	}
}

func forgetOne(t *testing.T, gone bool) {
	o := Options{Dir: t.TempDir(), SegmentBytes: 4096, SnapshotBytes: 8192, History: Everything}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	set := func(key, value string) store.Revision {
		t.Helper()
		e, err := s.Get(t.Context(), key, store.GetOptions{})
		var rev store.Revision
		if errors.Is(err, store.ErrNotFound) {
			rev, err = s.Create(t.Context(), key, []byte(value), 0)
		} else if err == nil {
			rev, err = s.Update(t.Context(), key, []byte(value), e.Revision, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	var middle store.Revision
	for i := range 100 {
		set("/a", fmt.Sprint("the secret ", i))
		middle = set("/b", fmt.Sprint("known ", i))
	}
	now := set("/a", "what everybody may know")
	if gone {
		if _, err := s.Delete(t.Context(), "/a", now); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want := 100
	if gone {
		want++
	}
	if n, err := Forget(t.Context(), o.Dir, "/a"); err != nil || n != want {
		t.Fatalf("%d changes were forgotten, want %d, %v", n, want, err)
	}
	if n, err := Forget(t.Context(), o.Dir, "/a"); err != nil || n != 0 {
		t.Errorf("once more: %d, %v", n, err)
	}
	noSecrets(t, o.Dir)
	if s, err = Open(o); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	page, err := s.List(t.Context(), "/", store.ListOptions{Revision: middle})
	if err != nil || len(page.Entries) != 1 || string(page.Entries[0].Value) != "known 99" {
		t.Errorf("at %d there is %v, %v", middle, page.Entries, err)
	}
	changes, err := s.Changes(t.Context(), store.ChangeQuery{Key: "/a", Limit: 2})
	if err != nil || len(changes) != 2 || !changes[0].Forgotten || len(changes[0].Value) > 0 {
		t.Errorf("its changes are %v, %v", changes, err)
	}
	if e, err := s.Get(t.Context(), "/a", store.GetOptions{}); gone != errors.Is(err, store.ErrNotFound) || !gone && (string(e.Value) != "what everybody may know" || e.Revision != now) {
		t.Errorf("now there is %s, %v", e.Value, err)
	}
	if found, err := Verify(t.Context(), o.Dir, func(int, int) {}); err != nil || len(found.Broken) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// noSecrets reads all values of all files.
func noSecrets(t *testing.T, dir string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	c := newDecoder()
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		salt, err := readHead(text)
		for at := headBytes; err == nil; {
			var r record
			var n int
			if r, n, err = c.readOnce(text[at:], salt); err == nil {
				at += n
				for _, change := range r.changes {
					if bytes.Contains(change.value, []byte("secret")) {
						t.Errorf("%s has %s", filepath.Base(name), change.value)
					}
				}
			}
		}
	}
}
