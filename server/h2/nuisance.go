package h2

import "time"

// nuisance counts the frames of a client that cost the server work and that no client needs in numbers: requests that are taken back
// before they are answered (CVE-2023-44487), frames for which the server has to reset a stream (CVE-2025-8671), PING, SETTINGS and
// PRIORITY frames, and empty DATA frames. It is a bucket that fills up again with time.
type nuisance struct {
	used  int
	since time.Time // when used was reduced last, or when the connection began
}

// nuisanceBurst is how many such frames may come at once, nuisanceRate how many a second for long. Both are far from what clients do,
// and large enough that to connect again, when the server ends the connection, is no cheaper for the client than for the server.
const nuisanceBurst, nuisanceRate = 10_000, 1000

// refusalCharge is for a request that could not be authenticated, on a connection on which others were.
const refusalCharge = nuisanceBurst / 100

// charge counts n frames. It is false when there have been too many.
func (u *nuisance) charge(n int) bool {
	u.used += n
	if u.used <= nuisanceBurst {
		return true
	}
	// The clock is asked only when it matters.
	now := time.Now()
	u.used = max(n, u.used-int(now.Sub(u.since).Seconds()*nuisanceRate))
	u.since = now
	return u.used <= nuisanceBurst
}
