package job

import "time"

// pause is the back-off of a Job after failures. The zero value is no back-off.
type pause struct {
	failures int
	last     time.Time
}

const (
	firstPause   = 10 * time.Second
	longestPause = 10 * time.Minute
)

// after returns the back-off after one more failure.
func (p pause) after(failure time.Time) pause {
	p.failures++
	if failure.After(p.last) {
		p.last = failure
	}
	return p
}

// left returns the rest of the back-off.
func (p pause) left(now time.Time) time.Duration {
	if p.failures == 0 {
		return 0
	}
	length := longestPause
	if p.failures < 10 { // more doubling would exceed the maximum anyway
		length = min(longestPause, firstPause<<(p.failures-1))
	}
	return max(0, p.last.Add(length).Sub(now))
}
