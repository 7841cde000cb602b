package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// collector says how much a heap may grow before it is collected.
//
// Usually that is three tenths of what is alive, and a few megabytes at least. Most of a server's memory is state that lives
// long and has few pointers, so that marking it is cheap. Less would cost latency: a request that comes during a collection
// waits some milliseconds longer, and that should not happen to one in fifty.
//
// While the state is small and much is written, that alone would mean a collection every few hundred requests, and a fifth
// of all CPU time. So in a hurry, which is when many collections follow each other closely, more is allowed, up to a size of
// the whole heap, until it is quiet. If the state is larger than that, what is beyond may double: with three tenths,
// collecting would take half of all CPU time.
type collector struct {
	mu      sync.Mutex // guards what follows
	last    time.Time
	live    uint64 // what the last collection left
	percent int    // as it was set
	hurried int    // how many collections in a row followed each other closely
	hurry   bool   // there is more room
	quiet   *time.Timer
	set     func(percent int)
}

const (
	// leastPercent is how much is always allowed, or leastRoom, if that is more.
	leastPercent = 30
	leastRoom    = 16 << 20
	mostPercent  = 400
	// headroom is what is allowed in a hurry, if it is more, until the heap has the size ample.
	headroom = 48 << 20
	ample    = 120 << 20
	// closely is how soon collections follow each other in a hurry, enough how many of them make one. A start takes fewer.
	closely = 300 * time.Millisecond
	enough  = 12
	// calmAfter is how long a hurry lasts without a collection.
	calmAfter = 5 * time.Second
)

// collect looks after the heap for as long as the process lives.
func collect() {
	c := &collector{set: func(percent int) { debug.SetGCPercent(percent) }}
	c.allow(leastPercent)
	c.watch()
}

func (c *collector) allow(percent int) {
	if percent != c.percent {
		c.percent = percent
		c.set(percent)
	}
}

// watch has itself called after the next collection.
func (c *collector) watch() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	runtime.AddCleanup(new(*int), func(c *collector) {
		metrics.Read(live)
		c.collected(time.Now(), live[0].Value.Uint64())
		c.watch()
	}, c)
}

// collected notes a collection that has left so many bytes alive.
func (c *collector) collected(now time.Time, live uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.last) > closely {
		c.hurried = 0
	}
	c.last, c.live = now, live
	if c.hurried++; c.hurried < enough && !c.hurry {
		c.allow(least(live))
		return
	}
	c.hurry = true
	c.allow(hurried(live))
	if c.quiet == nil {
		c.quiet = time.AfterFunc(calmAfter, c.calm)
		return
	}
	c.quiet.Reset(calmAfter)
}

// least is how much is allowed beside so much that is alive.
func least(live uint64) int { return share(leastRoom, live) }

// hurried is how much is allowed in a hurry.
func hurried(live uint64) int {
	if live > ample {
		return int((leastPercent*ample + 100*(live-ample)) / live)
	}
	return share(min(headroom, ample-live), live)
}

func share(room, live uint64) int {
	return int(max(leastPercent, min(mostPercent, 100*room/max(live, 1))))
}

// calm ends a hurry.
func (c *collector) calm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hurry, c.hurried = false, 0
	c.allow(least(c.live))
}
