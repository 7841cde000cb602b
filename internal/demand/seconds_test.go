package demand_test

import (
	"math"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/demand"
)

func TestSecondsNeverOverflow(t *testing.T) {
	before := time.Duration(0)
	for _, n := range []int64{1, 30, math.MaxInt32, 4_611_686_018, 9_223_372_036, 9_223_372_037, 18_446_744_074, math.MaxInt64} {
		d := demand.Seconds(n)
		if d < before || d+time.Hour < d || demand.Seconds(-n) != -d {
			t.Errorf("%d seconds are %v, after %v for fewer", n, d, before)
		}
		before = d
	}
	if d := demand.Seconds(int64(30)); d != 30*time.Second {
		t.Errorf("30 seconds are %v", d)
	}
}
