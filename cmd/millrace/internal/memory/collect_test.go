package memory

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTheHeapMayGrowMoreDuringABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		percent := 0
		c := &collector{growth: serverGrowth, set: func(p int) { percent = p }}
		collections := func(n int, apart time.Duration, live uint64) {
			for range n {
				time.Sleep(apart)
				c.collected(time.Now(), live)
			}
		}
		for _, step := range []struct {
			why   string
			n     int
			apart time.Duration
			live  uint64
			want  int
		}{
			{"a start", burstLength - 1, time.Millisecond, 10 << 20, 160},
			{"slow work", 100, time.Second, 10 << 20, 160},
			{"slow work with more state", 1, time.Second, 80 << 20, minPercent},
			{"much work", burstLength, 100 * time.Millisecond, 24 << 20, 200},
			{"the same, collected less often now", 3, time.Second, 24 << 20, 200},
			{"more state", 1, time.Second, 80 << 20, 50},
			{"as much as there is room for", 1, time.Second, burstHeapLimit, minPercent},
			{"a large state", 1, time.Second, 7 * burstHeapLimit, 90},
			{"hardly any state", 1, time.Second, 1 << 20, maxPercent},
		} {
			if collections(step.n, step.apart, step.live); percent != step.want {
				t.Errorf("%s: %d percent, want %d", step.why, percent, step.want)
			}
		}
		time.Sleep(burstEnd + time.Second)
		if percent != maxPercent {
			t.Errorf("quiet again, with hardly any state: %d percent", percent)
		}
	})
}
