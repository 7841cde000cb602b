package hollow

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCPUTimeGrowsByWhatIsUsedAndNeverFalls(t *testing.T) {
	began := time.Unix(1000, 0)
	var m meters
	read := func(after time.Duration, uses map[string]int64) map[string]time.Duration {
		one, now, out := m.of("n"), metav1.Time{Time: began.Add(after)}, map[string]time.Duration{}
		defer one.read()
		for run, milli := range uses {
			c := one.add(run, began, now, milli)
			if *c.NanoCores != uint64(milli)*1e6 {
				t.Errorf("%s uses %d", run, *c.NanoCores)
			}
			out[run] = time.Duration(c.Total)
		}
		return out
	}
	const s = time.Second
	for i, step := range []struct {
		after time.Duration
		uses  map[string]int64
		want  map[string]time.Duration
	}{
		{10 * s, map[string]int64{"": 3000, "a": 1000}, map[string]time.Duration{"": 30 * s, "a": 10 * s}},
		{10 * s, map[string]int64{"": 3000, "a": 1000}, map[string]time.Duration{"": 30 * s, "a": 10 * s}},
		{20 * s, map[string]int64{"": 2000, "a": 500}, map[string]time.Duration{"": 50 * s, "a": 15 * s}},
		{30 * s, map[string]int64{"": 1500}, map[string]time.Duration{"": 65 * s}}, // the container has ended
	} {
		for run, got := range read(step.after, step.uses) {
			if got != step.want[run] {
				t.Errorf("reading %d: %q has used %v, want %v", i, run, got, step.want[run])
			}
		}
	}
	if kept := len(m.nodes["n"].runs); kept != 1 {
		t.Errorf("%d runs are kept", kept)
	}
}
