package audit

import (
	"sync/atomic"
	"time"
)

// held are requests that only read one object, and whose beginning has not been written yet. It is written together
// with their end, which costs less than writing twice, or soon. Each has a slot of its own, so that requests do not
// wait for each other.
type held struct {
	slots [heldMost]slot
	next  atomic.Uint32 // where to look for a free slot
	timer atomic.Bool   // late will be called
}

// slot has a cache line of its own.
type slot struct {
	r atomic.Pointer[Record]
	_ [56]byte
}

const (
	// heldMost is how many are held. The beginning of one more is written at once.
	heldMost = 128
	// heldFor is after how long what is still held is to be written; it may take as long again until somebody looks.
	heldFor = 100 * time.Millisecond
)

// mayHold reports whether the beginning of the request may be held: nothing happens before its end that somebody must
// account for.
func (r *Record) mayHold() bool {
	at := &r.at
	return at.IsResource && at.Verb == "get" && at.Subresource == "" && !r.log.strict()
}

// strict reports whether requests are refused whose beginning cannot be written.
func (l *Log) strict() bool {
	for _, b := range l.backends {
		if b.strict {
			return true
		}
	}
	return false
}

// hold keeps the beginning of a request, if there is room.
func (h *held) hold(r *Record) bool {
	i := h.next.Add(1) % heldMost
	r.mu.Lock()
	r.slot = &h.slots[i]
	r.early = r.slot.r.CompareAndSwap(nil, r)
	held := r.early
	r.mu.Unlock()
	if held {
		h.wind()
	}
	return held
}

// wind sees to it that late is called.
func (h *held) wind() {
	if !h.timer.Load() && h.timer.CompareAndSwap(false, true) {
		time.AfterFunc(heldFor, h.late)
	}
}

// late writes what has been held for long enough.
func (h *held) late() {
	h.timer.Store(false)
	if h.write(time.Now().Add(-heldFor)) {
		h.wind()
	}
}

// write writes what began before a time, and reports whether more is held.
func (h *held) write(before time.Time) (more bool) {
	for i := range h.slots {
		r := h.slots[i].r.Load()
		if r == nil {
			continue
		}
		// The request may have ended meanwhile, and its record be another one's.
		r.mu.Lock()
		switch {
		case !r.early:
		case r.event.received.After(before):
			more = true
		default:
			r.free()
			begin := r.beginning()
			_ = r.log.emit(nil, &begin) // counted
		}
		r.mu.Unlock()
	}
	return more
}

// free gives the slot back.
func (r *Record) free() {
	r.early = false
	r.slot.r.CompareAndSwap(r, nil)
}

// beginning is the event of a request that has just come: what is found out later is not in it.
func (r *Record) beginning() event {
	e := &r.event
	return event{level: e.level, stage: RequestReceived, at: e.at, id: e.id, uri: e.uri, agent: e.agent, sources: e.sources,
		received: e.received, happened: e.received, common: e.common}
}
