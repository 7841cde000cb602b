package demand

import "time"

// longest is what Seconds returns for more than that: 146 years. It is half of the longest duration, so that a margin
// can be added to it.
const longest = time.Duration(1 << 62)

// Seconds returns a number of seconds of a specification as a duration. A pod's creator may write any number, and one
// above 9.2·10⁹ does not fit into a duration: multiplied, it would become a short or a negative one.
func Seconds[N int32 | int64](n N) time.Duration {
	limit := int64(longest / time.Second)
	return time.Duration(min(max(int64(n), -limit), limit)) * time.Second
}
