package h2

import (
	"net/http"
	"time"
)

// A connection whose client asks for more than its share reads and writes at most once in a while: then many requests and answers share a read and a
// write, and processors have time to notice what others send. Go looks for that only when a processor has nothing else to do.

const (
	// pause is that while.
	pause = 2 * time.Millisecond
	// crowdingLasts is how long it goes on after Crowding.
	crowdingLasts = 20 * time.Millisecond
	// enoughToWrite is written without a pause.
	enoughToWrite = 16 << 10
)

// Crowding says that the connection of a request brings more than its share while others wait. For responses of other servers it does nothing.
func Crowding(w http.ResponseWriter) {
	if st := streamOf(w); st != nil {
		st.conn.crowding.Store(time.Now().Add(crowdingLasts).UnixNano())
	}
}

// crowds tells whether that was said a short time ago.
func (c *conn) crowds() bool {
	until := c.crowding.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// flushAnswerLocked writes the queued frames, the last of which end an answer, at once or after a pause.
func (c *conn) flushAnswerLocked() {
	if len(c.out.frames) >= enoughToWrite || !c.crowds() {
		c.flushLocked()
		return
	}
	if c.out.soon {
		return
	}
	c.out.soon = true
	time.AfterFunc(pause, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.out.soon = false
		c.handOverLocked()
	})
}
