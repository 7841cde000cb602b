package audit

import (
	"sync"
	"time"
)

// held are requests that only read one object, and whose beginning has not been written yet. It is written together with their end, which costs
// less than writing twice, or soon.
type held struct {
	mu    sync.Mutex // guards what follows
	first *Record    // the oldest; records are a ring
	timer bool       // late will be called
}

// heldFor is after how long what is still held is to be written; it may take as long again until somebody looks.
const heldFor = 100 * time.Millisecond

// mayHold reports whether the beginning of the request may be held: nothing happens before its end that somebody must account for.
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

// hold keeps the beginning of a request.
func (h *held) hold(r *Record) {
	r.early = true
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.first == nil {
		r.next, r.previous = r, r
		h.first = r
	} else {
		r.next, r.previous = h.first, h.first.previous
		r.previous.next, r.next.previous = r, r
	}
	if !h.timer {
		h.timer = true
		time.AfterFunc(heldFor, h.late)
	}
}

// release forgets a request.
func (h *held) release(r *Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.releaseLocked(r)
}

func (h *held) releaseLocked(r *Record) {
	if r.next == nil {
		return
	}
	if h.first == r {
		h.first = r.next
	}
	if h.first == r {
		h.first = nil
	}
	r.previous.next, r.next.previous = r.next, r.previous
	r.next, r.previous = nil, nil
}

// late writes what has been held for long enough.
func (h *held) late() {
	h.write(time.Now().Add(-heldFor))
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer = h.first != nil; h.timer {
		time.AfterFunc(heldFor, h.late)
	}
}

// write writes what began before a time.
func (h *held) write(before time.Time) {
	for {
		r := h.oldest(before)
		if r == nil {
			return
		}
		r.mu.Lock()
		if r.early {
			r.early = false
			begin := r.beginning()
			_ = r.log.emit(nil, &begin) // counted
		}
		r.mu.Unlock()
	}
}

// oldest removes the oldest request, if it began before a time.
func (h *held) oldest(before time.Time) *Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.first
	if r == nil || r.event.received.After(before) {
		return nil
	}
	h.releaseLocked(r)
	return r
}

// beginning is the event of a request that has just come: what is found out later is not in it.
func (r *Record) beginning() event {
	e := &r.event
	return event{level: e.level, stage: RequestReceived, at: e.at, id: e.id, uri: e.uri, agent: e.agent, sources: e.sources,
		received: e.received, happened: e.received, common: e.common}
}
