package millracetest

import (
	"context"
	"fmt"
	"regexp"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

// leakLabel marks the goroutines of a test, by its name.
const leakLabel = "millracetest"

// leakGrace is how long goroutines may take to end after the test.
const leakGrace = 5 * time.Second

// NoLeaks fails the test if goroutines that it has started, or that these have, are still running five seconds after it
// has ended. It is called first of all, so that what is registered with t.Cleanup later, such as the end of a cluster,
// comes before. Tests that run in parallel are told apart. What the test hands to goroutines that were there before is
// not seen.
//
// In a bubble of testing/synctest there is no need for it: a bubble waits for all its goroutines.
func NoLeaks(t testing.TB) {
	t.Helper()
	// The name alone is not enough: with -count a test runs again.
	value := fmt.Sprintf("%s %p", t.Name(), t)
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(leakLabel, value)))
	t.Cleanup(func() {
		pprof.SetGoroutineLabels(context.Background())
		left := running(value)
		for wait := time.Millisecond; left != "" && wait < leakGrace; wait *= 2 {
			<-time.After(wait)
			left = running(value)
		}
		if left != "" {
			t.Errorf("goroutines of the test are still running:\n%s", left)
		}
	})
}

// running are the stacks of goroutines with a label.
func running(value string) string {
	var all strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		return err.Error()
	}
	mark := fmt.Sprintf("%q:%q", leakLabel, value)
	var out []string
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if head, labels, ok := strings.Cut(stack, "\n# labels: "); ok && strings.Contains(labels, mark) {
			count, _, _ := strings.Cut(head, " @")
			_, frames, _ := strings.Cut(labels, "\n")
			out = append(out, fmt.Sprintf("%s at\n%s", strings.TrimSpace(count), address.ReplaceAllString(frames, "  ")))
		}
	}
	return strings.Join(out, "\n")
}

// address is what stands before each line of a stack.
var address = regexp.MustCompile(`(?m)^#\s+0x[0-9a-f]+\s+`)
