package audit

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// In the mode batch a file is written a while after the first event, when there is much to write, and at the end.
func TestAFileIsWrittenInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.log")
		b, err := FileOptions{Path: path, Mode: Batch}.open(slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		l := &Log{backends: []*backend{b}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		lines := 0
		add := func(n int) {
			t.Helper()
			lines += n
			for range n {
				var one events
				one.add([]byte(strings.Repeat("x", 1023) + "\n"))
				if b.batch.add(one) != 1 {
					t.Fatal("no room")
				}
			}
			synctest.Wait()
		}
		written := func(when string, want int) {
			t.Helper()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(text), "\n"); n != want || len(text) != want*1024 {
				t.Errorf("%s: %d lines of %d bytes, want %d", when, n, len(text), want)
			}
		}

		add(3)
		written("at once", 0)
		time.Sleep(heldFor)
		synctest.Wait()
		written("after a while", 3)
		add(250)
		written("little", 3)
		add(6) // the last of which is enough: 256 KiB
		written("much", lines)
		add(10_000) // as many as wait at most
		time.Sleep(heldFor)
		synctest.Wait()
		written("very much", lines)
		add(2)
		cancel()
		<-ended
		written("at the end", lines)
		add(1)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		written("closed", lines)
		if n := b.failed.Load(); n != 0 {
			t.Errorf("%d events were lost", n)
		}
	})
}

func TestABatchTakesNoMoreThanItHasRoomFor(t *testing.T) {
	b := newBatch(BatchOptions{BufferSize: 4, MaxSize: 10})
	var two events
	two.add([]byte("first\n"))
	two.add([]byte("second\n"))
	one := two.part(1, 1)
	for i, step := range []struct {
		more  events
		taken int
	}{{two, 2}, {one, 1}, {two, 1}, {two, 0}, {one, 0}} {
		if taken := b.add(step.more); taken != step.taken {
			t.Errorf("step %d: %d were taken, want %d", i, taken, step.taken)
		}
	}
	var lines []string
	all := b.take()
	for line := range all.each {
		lines = append(lines, string(line))
	}
	if got := strings.Join(lines, " "); got != "first second second first" {
		t.Errorf("it has %q", got)
	}
}
