package journal

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/millrace/millrace/internal/randomly"
	"github.com/millrace/millrace/internal/server/store"
)

// TestAStoreThatBeginsHasNothingOrWhatItHadWhenItHadBegun crashes the machine at any place of the first minutes of a
// store.
func TestAStoreThatBeginsHasNothingOrWhatItHadWhenItHadBegun(t *testing.T) {
	random := rand.New(rand.NewPCG(randomly.Seed(t), 0))
	begun, empty := 0, 0
	for range 500 {
		disk := newSimDisk(random)
		left := 1 + random.IntN(300)
		disk.before = func(string) error {
			if left--; left == 0 {
				disk.mu.Lock()
				disk.crashed = true
				disk.mu.Unlock()
				return errCrashed
			}
			return nil
		}
		told, written := false, 0
		o := Options{SegmentBytes: 4096, Begins: true}
		if s, err := open(o, disk, io.NopCloser(nil)); err == nil {
			s.run()
			for err == nil && written < 40 {
				if _, err = s.Create(t.Context(), fmt.Sprint("/", written), make([]byte, 200), 0); err == nil {
					written++
				}
				if err == nil && written == 20 {
					told = s.Begun(t.Context()) == nil
				}
			}
			_ = s.Close()
		} else if !errors.Is(err, errCrashed) {
			t.Fatal(err)
		}
		s, err := open(o, disk.crash(), io.NopCloser(nil))
		if err != nil {
			t.Fatalf("after %d writes, begun %v: %v", written, told, err)
		}
		page, err := s.List(t.Context(), "/", store.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		switch n := len(page.Entries); {
		case told && n < written, !told && n > 0 && n < 20:
			t.Fatalf("%d of %d entries are there, begun %v", n, written, told)
		case told:
			begun++
		case n == 0:
			empty++
		}
		_ = s.Close()
	}
	if begun < 50 || empty < 50 {
		t.Errorf("the test shows too little: %d began, and %d were empty", begun, empty)
	}
}
