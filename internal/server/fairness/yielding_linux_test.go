package fairness

import (
	"syscall"
	"testing"
)

func TestTheKernelPrefersTheOthersToTheThreadsOfLanes(t *testing.T) {
	var l lanes
	end := l.begin()
	defer end()
	rank := func() int {
		raw, err := syscall.Getpriority(syscall.PRIO_PROCESS, syscall.Gettid())
		if err != nil {
			t.Error(err)
		}
		return 20 - raw
	}
	var on int
	l.do(func() { on = rank() })
	if own := rank(); on != min(own+niceness, 19) {
		t.Errorf("the niceness of a lane is %d, and of others %d", on, own)
	}
}
