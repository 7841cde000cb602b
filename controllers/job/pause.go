package job

import "time"

// A pause is how long a job waits before it makes new pods after failures. The
// zero value is no pause.
type pause struct {
	failures int
	last     time.Time
}

const (
	firstPause   = 10 * time.Second
	longestPause = 10 * time.Minute
)

// after is the pause with one more failure.
func (p pause) after(failure time.Time) pause {
	p.failures++
	if failure.After(p.last) {
		p.last = failure
	}
	return p
}

// left is what is left of the pause; nothing if it is over.
func (p pause) left(now time.Time) time.Duration {
	if p.failures == 0 {
		return 0
	}
	length := longestPause
	if p.failures < 10 { // beyond, doubling would exceed it anyway
		length = min(longestPause, firstPause<<(p.failures-1))
	}
	return max(0, p.last.Add(length).Sub(now))
}
