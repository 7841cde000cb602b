package stream

import "testing"

// With very many watches each buffers little before it sends; with few watches each may buffer more.
func TestWithManyWatchesEachBuffersLess(t *testing.T) {
	for _, test := range []struct {
		others int64
		sends  bool
	}{{0, false}, {100_000, true}} {
		sent := 0
		f := &frames{send: func(b []byte) error { sent += len(b); return nil }}
		sending.Add(test.others)
		f.buffer()
		f.out.Bytes = append(f.out.Bytes, make([]byte, 2*minPart)...)
		f.flushIfFull()
		sending.Add(-test.others)
		if (sent > 0) != test.sends {
			t.Errorf("beside %d others %d bytes were sent", test.others, sent)
		}
		if f.out != nil {
			f.flush()
		}
	}
	if n := sending.Load(); n != 0 {
		t.Errorf("%d watches are said to be sending when none is", n)
	}
}
