package h2

import "slices"

// wakeLocked wakes the stream that has waited longest, if there is room for it. That stream wakes the next one when it has used the room, or cannot use
// it: waking all of them for a few bytes would let a client that opens its window a few bytes at a time keep the server busy.
func (o *outgoing) wakeLocked() {
	if len(o.waiting) == 0 || o.window == 0 || len(o.frames) >= maxQueued {
		return
	}
	st := o.waiting[0]
	o.waiting[0] = nil
	o.waiting = o.waiting[1:]
	st.queued, st.next = false, true
	st.changed.Broadcast()
}

// queueLocked lets a stream wait for room, unless it is its own window that it waits for.
func (o *outgoing) queueLocked(st *stream) {
	if st.window > 0 && !st.queued {
		st.queued = true
		o.waiting = append(o.waiting, st)
	}
	if st.next {
		st.next = false
		o.wakeLocked()
	}
}

// stopWaitingLocked lets a stream wait for room no longer.
func (o *outgoing) stopWaitingLocked(st *stream) {
	st.next = false
	if st.queued {
		st.queued = false
		o.waiting = slices.DeleteFunc(o.waiting, func(other *stream) bool { return other == st })
	}
	o.wakeLocked()
}

// waitForRoomLocked waits until some of the n bytes of a stream may be queued, and returns how many. A stream that finds others
// waiting waits behind them; once it is its turn it goes on while there is room. When it is done it calls stopWaitingLocked.
func (c *conn) waitForRoomLocked(st *stream, n int) (int, error) {
	o := &c.out
	for {
		if err := st.sendErrorLocked(); err != nil {
			return 0, err
		}
		n := min(int64(n), int64(o.largest), st.window, o.window)
		if n > 0 && len(o.frames) < maxQueued && (st.next || len(o.waiting) == 0) {
			st.next = true
			st.window -= n
			o.window -= n
			return int(n), nil
		}
		if !o.writing && len(o.frames) > 0 {
			st.next = false
			c.flushLocked()
			continue
		}
		if st.answer.over {
			st.boundRestLocked()
		}
		o.queueLocked(st)
		st.waitLocked(&st.writeBy)
	}
}
