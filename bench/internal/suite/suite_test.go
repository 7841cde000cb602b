package suite

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"
)

func event(seq, version int) string {
	return fmt.Sprintf(`{"type":"MODIFIED","object":{"metadata":{"resourceVersion":"%d"},"data":{"marker":"seq=%08d"}}}`+"\n", version, seq)
}

func follow(events int, pieces ...string) *follower {
	f := newFollower(events, nil, &atomic.Int64{})
	f.Head(200, nil)
	for _, p := range pieces {
		f.Data([]byte(p))
	}
	f.End(nil)
	return f
}

func TestFollowerSeesEventsThatComeInPieces(t *testing.T) {
	text := event(1, 5) + event(0, 7) + event(2, 9)
	for cut := range len(text) {
		if f := follow(3, text[:cut], text[cut:]); f.lost() != 0 || f.count != 3 {
			t.Fatalf("cut at %d: %d seen, %d lost", cut, f.count, f.lost())
		}
	}
}

func TestFollowerReportsWhatIsMissingRepeatedOrOutOfOrder(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		lost int
	}{
		"nothing":      {"", 3},
		"one missing":  {event(0, 1) + event(2, 2), 1},
		"one twice":    {event(0, 1) + event(1, 2) + event(1, 3) + event(2, 4), 1},
		"out of order": {event(0, 1) + event(1, 3) + event(2, 2), 1},
		"cut off":      {event(0, 1) + `{"type":"ERROR","object":{}}` + "\n", 2},
		"all":          {event(0, 1) + event(1, 2) + event(2, 3), 0},
		"foreign ones": {event(warmUpMarker, 1) + event(0, 2) + event(1, 3) + event(2, 4), 0},
	} {
		f := follow(3, c.text)
		if f.lost() != c.lost {
			t.Errorf("%s: %d lost, want %d", name, f.lost(), c.lost)
		}
		select {
		case <-f.done:
		default:
			t.Errorf("%s: not done at the end", name)
		}
	}
}

func TestFollowerCountsOnlyItsOwn(t *testing.T) {
	f := newFollower(10, func(seq int) bool { return seq%5 == 2 }, &atomic.Int64{})
	f.text([]byte(event(2, 1) + event(7, 2)))
	if f.lost() != 0 || f.want != 2 {
		t.Errorf("%d lost of %d", f.lost(), f.want)
	}
	f.text([]byte(event(3, 3)))
	if f.lost() != 1 {
		t.Error("an event for somebody else was taken")
	}
}

func TestFollowerUnpacks(t *testing.T) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	f := newFollower(2, nil, &atomic.Int64{})
	f.Head(200, []hpack.HeaderField{{Name: "content-encoding", Value: "gzip"}})
	for seq := range 2 {
		w.Write([]byte(event(seq, seq+1)))
		w.Flush()
		for _, c := range b.Bytes() {
			f.Data([]byte{c})
		}
		b.Reset()
	}
	f.End(nil)
	if f.lost() != 0 {
		t.Errorf("%d lost", f.lost())
	}
}

func TestRowsCompareTargets(t *testing.T) {
	rows := Rows([]Outcome{
		{Case: "get", Target: "millrace", Samples: []Sample{{Count: 300, Took: time.Second, CPU: 50 * time.Microsecond, Lost: 1}, {Count: 100, Took: time.Second, CPU: 70 * time.Microsecond, Lost: 2}}},
		{Case: "get", Target: "kubernetes", Samples: []Sample{{Count: 50, Took: time.Second, CPU: 600 * time.Microsecond}}},
		{Case: "list", Target: "kubernetes", Error: "refused"},
	})
	r := rows[0]
	if r.Rate.Median != 200 || r.CPU.Median != 60 || r.Lost != 3 || r.RateTo["kubernetes"] != 4 || r.CPUTo["kubernetes"] != 0.1 {
		t.Errorf("%+v", r)
	}
	var b strings.Builder
	if err := WriteTable(&b, rows); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"60 µs", "50%", "0.1×", "list, kubernetes failed: refused"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}

func TestCasesHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	quick := 0
	for _, c := range Cases() {
		if seen[c.Name] {
			t.Errorf("%s is there twice", c.Name)
		}
		seen[c.Name] = true
		if c.Quick {
			quick++
		}
		if c.Run == nil || c.Op == "" || c.Fixture == "" {
			t.Errorf("%s lacks something", c.Name)
		}
	}
	if quick == 0 {
		t.Error("nothing is quick")
	}
}

func TestPlotsAreDrawnOfWhatWasMeasured(t *testing.T) {
	rows := Rows([]Outcome{
		{Case: "fanout/10/6KB/plain", Target: "millrace", Samples: []Sample{{Count: 1, Took: 1, CPU: 1}}},
		{Case: "create/json", Target: "limit", Samples: []Sample{{Count: 1, Took: 1, CPU: 1}}},
		{Case: "latency/10/20ps", Target: "limit", Error: "not done"},
	})
	figures := Plots(rows)
	var names []string
	for _, f := range figures {
		if names = append(names, f.File); len(f.SVG) == 0 || f.Title == "" {
			t.Errorf("%s is empty", f.File)
		}
	}
	if want := "rate-requests cpu-requests fanout-6kb"; strings.Join(names, " ") != want {
		t.Errorf("%v, want %s", names, want)
	}
	var page strings.Builder
	if err := WritePage(&page, Report{Rows: rows}, figures, "figures", "go run it"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"(figures/fanout-6kb.svg)", "| create/json | limit |", "failed: not done", "    go run it\n"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%q is not in\n%s", want, page.String())
		}
	}
}
