package quiet_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/quiet"
)

func TestChosenRecordsAreDebugWhateverTheLoggerIsMadeOf(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo} {
		var out bytes.Buffer
		inner := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})
		log := slog.New(quiet.Handler{Handler: inner, Lower: func(r slog.Record) bool { return r.Message == "usual" }}).With("a", 1).WithGroup("g")
		log.Error("usual")
		log.Error("strange", "b", 2)
		said := out.String()
		if shown := strings.Contains(said, "level=DEBUG msg=usual a=1"); shown != (level == slog.LevelDebug) {
			t.Errorf("at level %s: %s", level, said)
		}
		if !strings.Contains(said, "level=ERROR msg=strange a=1 g.b=2") {
			t.Errorf("at level %s: %s", level, said)
		}
	}
}
