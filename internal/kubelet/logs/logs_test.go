package logs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func stampOf(i int) string {
	return time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC).Format(time.RFC3339Nano)
}

func logOf(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "0.log")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func full(i int, text string) string { return fmt.Sprintf("%s stdout F %s\n", stampOf(i), text) }

func read(t *testing.T, path string, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := Read(t.Context(), path, o, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestLogOptionsSelectLines(t *testing.T) {
	path := logOf(t, full(1, "one"), full(2, "two"), fmt.Sprintf("%s stderr F %s\n", stampOf(3), "three"),
		fmt.Sprintf("%s stdout P %s\n", stampOf(4), "fo"), full(4, "ur"))
	number := func(n int64) *int64 { return &n }
	for _, test := range []struct {
		name string
		o    Options
		want string
	}{
		{"all", Options{}, "one\ntwo\nthree\nfour\n"},
		{"tail", Options{Tail: number(2)}, "four\n"}, // a tail counts entries as the runtime wrote them, including partial lines
		{"none", Options{Tail: number(0)}, ""},
		{"a longer tail than there is", Options{Tail: number(100)}, "one\ntwo\nthree\nfour\n"},
		{"since", Options{Since: time.Date(2026, 1, 1, 0, 0, 3, 0, time.UTC)}, "three\nfour\n"},
		{"limit", Options{Limit: number(6)}, "one\ntw"},
		{"stream", Options{Stream: "stderr"}, "three\n"},
		{"timestamps", Options{Timestamps: true, Tail: number(3)}, stampOf(3) + " three\n" + stampOf(4) + " four\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := read(t, path, test.o); got != test.want {
				t.Errorf("read %q, want %q", got, test.want)
			}
		})
	}
}

func TestTheTailOfALongLogIsFound(t *testing.T) {
	var lines []string
	for i := range 5000 {
		lines = append(lines, full(i%60, fmt.Sprintf("line %d %s", i, strings.Repeat("x", i%100))))
	}
	path := logOf(t, lines...)
	for _, n := range []int64{1, 2, 999, 4999, 5000} {
		got := read(t, path, Options{Tail: &n})
		if count := int64(strings.Count(got, "\n")); count != n || !strings.HasPrefix(got, fmt.Sprintf("line %d ", 5000-n)) {
			t.Errorf("the last %d are %d, which begin with %.20q", n, count, got)
		}
	}
}

func TestAFollowerSeesEachLineOnceThroughRotations(t *testing.T) {
	path := logOf(t)
	var ended atomic.Bool
	out, in := io.Pipe()
	finished := make(chan error, 1)
	go func() {
		err := Read(t.Context(), path, Options{Follow: true, Ended: ended.Load}, in)
		in.CloseWithError(io.EOF)
		finished <- err
	}()
	append1 := func(i int) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		if _, err := f.WriteString(full(i%60, fmt.Sprint(i))); err != nil {
			t.Error(err)
		}
	}
	const count = 20
	got := make([]byte, 0, 100)
	buffer := make([]byte, 64)
	for i := range count {
		append1(i)
		want := fmt.Sprintf("%d\n", i)
		for !bytes.HasSuffix(got, []byte(want)) { // it was read, so it may be rotated now
			n, err := out.Read(buffer)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, buffer[:n]...)
		}
		if i%5 == 4 {
			if err := (Rotation{Size: 1, Files: 2}).Rotate(path, func() error { return os.WriteFile(path, nil, 0o600) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	ended.Store(true)
	rest, _ := io.ReadAll(out)
	if err := <-finished; err != nil {
		t.Error(err)
	}
	var want strings.Builder
	for i := range count {
		fmt.Fprintf(&want, "%d\n", i)
	}
	if text := string(got) + string(rest); text != want.String() {
		t.Errorf("followed %q", text)
	}
	if old, _ := filepath.Glob(path + ".*"); len(old) != 1 {
		t.Errorf("%d old files are left", len(old))
	}
}

func FuzzAnyLogCanBeRead(f *testing.F) {
	f.Add([]byte(full(1, "one")))
	f.Add([]byte("2026 stdout P:x "))
	f.Add([]byte("\n\n  \n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		n, limit := int64(3), int64(10)
		for _, o := range []Options{{}, {Tail: &n, Timestamps: true}, {Limit: &limit}} {
			var b bytes.Buffer
			if err := Read(t.Context(), path, o, &b); err != nil {
				t.Fatal(err)
			}
			if o.Limit != nil && int64(b.Len()) > limit {
				t.Fatalf("read %d bytes where %d were asked for", b.Len(), limit)
			}
		}
	})
}
