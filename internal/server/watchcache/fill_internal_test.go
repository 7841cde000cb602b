package watchcache

import (
	"testing"

	"github.com/millrace/millrace/internal/server/store"
)

func TestPagesOfAFillAreAsBigAsTheirEntriesAllow(t *testing.T) {
	for _, c := range []struct{ entries, bytes, fixed, want int }{
		{entries: 500, bytes: 100, want: largestPage},
		{entries: 500, bytes: 8 << 10, want: 512},
		{entries: 500, bytes: 4 << 20, want: smallestPage},
		{entries: 500, bytes: 100, fixed: 7, want: 7},
		{entries: 0, want: smallestPage},
	} {
		value := make([]byte, c.bytes)
		p := store.Page{Entries: make([]store.Entry, c.entries)}
		for i := range p.Entries {
			p.Entries[i].Value = value
		}
		got := New(nil, Options{PageSize: c.fixed}).nextPage(p)
		if got > c.want || got < c.want*99/100 {
			t.Errorf("%d entries of %d bytes are followed by %d, want about %d", c.entries, c.bytes, got, c.want)
		}
	}
}
