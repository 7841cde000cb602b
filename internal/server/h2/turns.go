package h2

import "slices"

// wakeLocked lets streams go on that wait for space, if there is any: first the one that has waited longest. A handler
// that is woken wakes the next stream when it has used the space, or cannot use it. If all of them were woken, a client
// that opens its window by a few bytes at a time could keep the server busy. It returns true if something was queued.
func (c *conn) wakeLocked() (queued bool) {
	o := &c.out
	for len(o.waiting) > 0 && o.window > 0 && len(o.frames) < maxQueued && c.err == nil {
		st := o.waiting[0]
		o.waiting[0] = nil
		o.waiting = o.waiting[1:]
		st.queued, st.next = false, true
		handled := st.answer.rest == nil
		st.changedLocked()
		if handled {
			return queued
		}
		queued = true
	}
	return queued
}

// queueLocked makes a stream wait for space, unless it waits for its own window.
func (o *outgoing) queueLocked(st *stream) {
	if st.window > 0 && !st.queued {
		st.queued = true
		o.waiting = append(o.waiting, st)
	}
}

// unqueueLocked removes a stream from those that wait.
func (o *outgoing) unqueueLocked(st *stream) {
	st.next = false
	if st.queued {
		st.queued = false
		o.waiting = slices.DeleteFunc(o.waiting, func(other *stream) bool { return other == st })
	}
}

// stopWaitingLocked ends the turn of a handler that has queued what it has, and lets others go on.
func (c *conn) stopWaitingLocked(st *stream) {
	c.out.unqueueLocked(st)
	if c.wakeLocked() {
		c.handOverLocked()
	}
}

// takeRoomLocked takes space for some of the n bytes of a stream, and returns for how many; zero if there is none. A
// stream queues behind those that wait already; once it is its turn it may go on while there is space.
func (c *conn) takeRoomLocked(st *stream, n int) int {
	o := &c.out
	room := min(int64(n), int64(o.largest), st.window, o.window)
	if room <= 0 || len(o.frames) >= maxQueued || !st.next && len(o.waiting) > 0 {
		return 0
	}
	st.next = true
	st.window -= room
	o.window -= room
	return int(room)
}

// waitForRoomLocked waits until some of the n bytes that a handler writes may be queued, and returns how many. When the
// handler has no more it calls stopWaitingLocked.
func (c *conn) waitForRoomLocked(st *stream, n int) (int, error) {
	o := &c.out
	for {
		if err := st.sendErrorLocked(); err != nil {
			return 0, err
		}
		if room := c.takeRoomLocked(st, n); room > 0 {
			return room, nil
		}
		if !o.writing && len(o.frames) > 0 {
			st.next = false
			c.flushLocked()
			continue
		}
		o.queueLocked(st)
		if st.next {
			st.next = false
			c.wakeLocked()
			c.handOverLocked()
		}
		st.waitLocked(&st.writeBy)
	}
}
