package h2

import "time"

// nuisance counts the frames of a client that cost the server work and that no client needs in large numbers: requests
// that are cancelled before they are answered (CVE-2023-44487), frames for which the server has to reset a stream
// (CVE-2025-8671), PING, SETTINGS and PRIORITY frames, and empty DATA frames. It is a token bucket.
type nuisance struct {
	used  int
	since time.Time // when used was last reduced, or when the connection began
}

// nuisanceBurst is how many such frames may come at once; nuisanceRate is how many per second are allowed permanently.
// Both are far above what clients need. After the server has ended a connection for them, the client waits for
// lingerTime, or pays for another handshake as the server does.
const nuisanceBurst, nuisanceRate = 5000, 1000

// refusalCharge is counted for a request that could not be authenticated, if other requests of its connection were.
const refusalCharge = nuisanceBurst / 100

// charge counts n frames. It returns false if there have been too many.
func (u *nuisance) charge(n int) bool {
	u.used += n
	if u.used <= nuisanceBurst {
		return true
	}
	// Reading the clock is avoided as long as the burst is not used up.
	now := time.Now()
	u.used = max(n, u.used-int(now.Sub(u.since).Seconds()*nuisanceRate))
	u.since = now
	return u.used <= nuisanceBurst
}
