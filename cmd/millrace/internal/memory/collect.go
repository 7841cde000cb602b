// Package memory keeps the program small: when it collects garbage, and when it gives memory back. These are settings
// of the process, so only the program has them.
package memory

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// collector adjusts how much the heap may grow before the next garbage collection (GOGC).
//
// Normally that is 30 % of the live heap, and a few megabytes at least. Most of a server's memory is long-lived state
// with few pointers, so marking it is cheap. A smaller limit would cost latency: a request during a collection takes
// some milliseconds longer, and this should happen to less than one request in fifty.
//
// If the state is small and many requests are served, that alone would mean a collection every few hundred requests,
// and 20 % of all CPU time. So during a burst, when many collections follow each other closely, the heap may grow more,
// up to burstHeapLimit in all, until the burst is over. If the live heap is larger than that, the part above it may
// double: with 30 %, collections would take half of all CPU time.
type collector struct {
	mu         sync.Mutex // guards the fields below
	growth     growth
	last       time.Time
	live       uint64 // live heap after the last collection
	percent    int    // the current setting
	burstCount int    // how many collections in a row came within burstInterval
	inBurst    bool   // a burst is under way
	quiet      *time.Timer
	set        func(percent int)
}

// growth is the minimum growth of a heap in bytes, and that during a burst, as long as the heap stays below
// burstHeapLimit.
type growth struct{ usual, burst uint64 }

var (
	serverGrowth = growth{usual: 16 << 20, burst: 48 << 20}
	// Frugal is for programs whose usual work makes hardly any garbage.
	Frugal = growth{usual: 2 << 20, burst: 2 << 20}
)

const (
	// minPercent is the minimum growth in percent. The larger one of it and the minimum in bytes counts.
	minPercent     = 30
	maxPercent     = 400
	burstHeapLimit = 120 << 20
	// A burst is burstLength collections in a row, each within burstInterval of the one before. A start has fewer.
	burstInterval = 300 * time.Millisecond
	burstLength   = 12
	// burstEnd is how long after its last collection a burst ends.
	burstEnd = 5 * time.Second
)

// Garbage is the collector of the process. It adjusts nothing unless it was started.
var Garbage = &collector{growth: serverGrowth, set: func(percent int) { debug.SetGCPercent(percent) }}

// Start adjusts the garbage collector for as long as the process lives.
func (c *collector) Start() {
	c.allow(minPercent)
	c.watch()
}

// SetGrowth sets how much the heap may grow, if the collector was started.
func (c *collector) SetGrowth(g growth) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.growth = g; c.percent != 0 {
		c.allow(minPercent)
	}
}

func (c *collector) allow(percent int) {
	if percent != c.percent {
		c.percent = percent
		c.set(percent)
	}
}

// watch registers a call of collected after the next collection.
func (c *collector) watch() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	runtime.AddCleanup(new(*int), func(c *collector) {
		metrics.Read(live)
		c.collected(time.Now(), live[0].Value.Uint64())
		c.watch()
	}, c)
}

// collected handles a collection that has left live bytes.
func (c *collector) collected(now time.Time, live uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.last) > burstInterval {
		c.burstCount = 0
	}
	c.last, c.live = now, live
	if c.burstCount++; c.burstCount < burstLength && !c.inBurst {
		c.allow(c.normalPercent(live))
		return
	}
	c.inBurst = true
	c.allow(c.burstPercent(live))
	if c.quiet == nil {
		c.quiet = time.AfterFunc(burstEnd, c.endBurst)
		return
	}
	c.quiet.Reset(burstEnd)
}

// normalPercent returns the growth limit outside of bursts.
func (c *collector) normalPercent(live uint64) int { return share(c.growth.usual, live) }

// burstPercent returns the growth limit during a burst.
func (c *collector) burstPercent(live uint64) int {
	if live > burstHeapLimit {
		return int((minPercent*burstHeapLimit + 100*(live-burstHeapLimit)) / live)
	}
	return share(min(c.growth.burst, burstHeapLimit-live), live)
}

func share(room, live uint64) int {
	return int(max(minPercent, min(maxPercent, 100*room/max(live, 1))))
}

// endBurst ends a burst.
func (c *collector) endBurst() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inBurst, c.burstCount = false, 0
	c.allow(c.normalPercent(c.live))
}
