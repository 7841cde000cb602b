package answer

import (
	"net/http/httptest"
	"testing"
	"time"
)

// hurried notes by when an answer must have been taken.
type hurried struct {
	*httptest.ResponseRecorder
	by time.Time
}

func (h *hurried) SetWriteDeadline(t time.Time) error {
	h.by = t
	return nil
}

func TestCallerThatDoesNotReadKeepsNoPlace(t *testing.T) {
	for size, bounded := range map[int]bool{small: false, small + 1: true, 2 * chunk: true} {
		h := &hurried{ResponseRecorder: httptest.NewRecorder()}
		ch := &chunked{w: &Response{ResponseWriter: h}, b: GetBuffer(), within: time.Minute}
		ch.b.Bytes = append(ch.b.Bytes, make([]byte, size)...)
		ch.room()
		ch.end()
		if h.by.IsZero() == bounded || h.Body.Len() != size {
			t.Errorf("an answer of %d bytes: to be taken by %v, %d were sent", size, h.by, h.Body.Len())
		}
	}
}
