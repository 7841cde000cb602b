package seam

import (
	"io"
	"strings"
	"testing"
)

func TestAPartIsWrappedIfTheContextHasAWrapper(t *testing.T) {
	ctx := Around(t.Context(), func(s string) string { return "wrapped " + s })
	if got := Wrap(ctx, "part"); got != "wrapped part" {
		t.Errorf("with a wrapper it is %q", got)
	}
	if got := Wrap(t.Context(), "part"); got != "part" {
		t.Errorf("without a wrapper it is %q", got)
	}
}

func TestWrappersAreFoundByTheTypeOfThePart(t *testing.T) {
	ctx := Around(t.Context(), func(string) string { return "another type's" })
	reader := strings.NewReader("part")
	if got := Wrap[io.Reader](ctx, reader); got != reader {
		t.Errorf("a reader became %v", got)
	}
}
