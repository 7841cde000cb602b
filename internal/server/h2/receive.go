package h2

import (
	"time"

	"golang.org/x/net/http2"
)

// connectionError and streamError are errors for a client that violates HTTP/2. The first ends the connection, the
// second a stream.
func connectionError(code http2.ErrCode) error { return http2.ConnectionError(code) }

func streamError(id uint32, code http2.ErrCode) error {
	return http2.StreamError{StreamID: id, Code: code}
}

// handle handles one frame. An error that is not a stream's ends the connection.
func (c *conn) handle(f http2.Frame) error {
	settings, ok := f.(*http2.SettingsFrame)
	if !c.settingsReceived {
		if !ok || settings.IsAck() {
			return connectionError(http2.ErrCodeProtocol)
		}
		c.settingsReceived = true
		if err := c.clearReadDeadline(); err != nil {
			return err
		}
	}
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		return c.headers(f)
	case *http2.DataFrame:
		return c.data(f)
	case *http2.RSTStreamFrame:
		return c.resetByClient(f)
	case *http2.SettingsFrame:
		return c.settings(f)
	case *http2.PingFrame:
		return c.ping(f)
	case *http2.WindowUpdateFrame:
		return c.windowUpdate(f)
	case *http2.PushPromiseFrame:
		return connectionError(http2.ErrCodeProtocol)
	case *http2.PriorityFrame:
		if err := c.countNuisance(); err != nil {
			return err
		}
		if f.StreamDep == f.StreamID {
			return streamError(f.StreamID, http2.ErrCodeProtocol)
		}
	}
	return nil // RFC 9113 says that unknown frames are ignored
}

// countNuisance counts a frame that no client needs in large numbers.
func (c *conn) countNuisance() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.countNuisanceLocked()
}

func (c *conn) countNuisanceLocked() error {
	if !c.nuisance.charge(1) {
		return errFlood
	}
	return nil
}

// clearReadDeadline removes the deadline for the connection preface.
func (c *conn) clearReadDeadline() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining {
		return nil
	}
	return c.net.SetReadDeadline(time.Time{})
}

// streamLocked returns the stream of a frame; nil if both sides have finished with it. A frame for a stream that was
// never opened is an error.
func (c *conn) streamLocked(id uint32) (*stream, error) {
	if id > c.last {
		return nil, connectionError(http2.ErrCodeProtocol)
	}
	return c.streams[id], nil
}

// skipLocked lets the client send n more bytes on the connection, in place of bytes that were discarded.
func (c *conn) skipLocked(n int) { c.out.windowUpdate(0, c.receive.give(n)) }

// data handles a DATA frame.
func (c *conn) data(f *http2.DataFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	st, err := c.streamLocked(f.StreamID)
	if err != nil {
		return err
	}
	n := int(f.Length)
	if n == 0 && !f.StreamEnded() {
		if err := c.countNuisanceLocked(); err != nil {
			return err
		}
	}
	if !c.receive.take(n) {
		return connectionError(http2.ErrCodeFlowControl)
	}
	switch {
	case st == nil && c.draining && f.StreamID > c.served:
		c.skipLocked(n)
		return nil
	case st == nil || st.complete:
		c.skipLocked(n)
		return streamError(f.StreamID, http2.ErrCodeStreamClosed)
	case !st.receive.take(n):
		c.skipLocked(n)
		return streamError(f.StreamID, http2.ErrCodeFlowControl)
	}
	padding := n - len(f.Data())
	c.skipLocked(padding)
	if !f.StreamEnded() {
		c.out.windowUpdate(st.id, st.receive.give(padding))
	}
	return c.addLocked(st, f.Data(), f.StreamEnded())
}

// addLocked adds to a stream's body.
func (c *conn) addLocked(st *stream, b []byte, end bool) error {
	st.received += int64(len(b))
	if st.declared >= 0 && (st.received > st.declared || end && st.received != st.declared) {
		c.skipLocked(len(b))
		return streamError(st.id, http2.ErrCodeProtocol)
	}
	if st.answered || st.closed { // the handler does not read it any more
		c.skipLocked(len(b))
	} else {
		st.body.add(b)
	}
	if end {
		c.completeLocked(st)
	}
	st.changed.Broadcast()
	return nil
}

// completeLocked records that the whole request has arrived.
func (c *conn) completeLocked(st *stream) {
	st.complete = true
	if st.answered {
		c.forgetLocked(st)
	}
}

func (c *conn) resetByClient(f *http2.RSTStreamFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	st, err := c.streamLocked(f.StreamID)
	if st == nil {
		return err
	}
	if !st.answer.headSent {
		err = c.countNuisanceLocked()
	}
	c.endLocked(st, errStopped)
	return err
}

// maxSettings is how many settings a frame may have. HTTP/2 defines fewer than ten.
const maxSettings = 100

func (c *conn) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	if f.NumSettings() > maxSettings {
		return connectionError(http2.ErrCodeProtocol)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.countNuisanceLocked(); err != nil {
		return err
	}
	window := c.out.streamWindow // if a frame sets it several times, the last value counts, and open streams are changed once
	err := f.ForeachSetting(func(s http2.Setting) error {
		if err := s.Valid(); err != nil {
			return err
		}
		switch s.ID {
		case http2.SettingInitialWindowSize:
			window = int64(s.Val)
		case http2.SettingMaxFrameSize:
			c.out.largest = int(min(s.Val, 4*largestFrame)) // larger frames would delay other streams
		case http2.SettingHeaderTableSize:
			c.out.encoder.SetMaxDynamicTableSize(min(s.Val, 4096))
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.out.settingsAck() // before the data that the new windows allow
	if err := c.setStreamWindowLocked(window); err != nil {
		return err
	}
	return c.out.tooMuch()
}

// setStreamWindowLocked changes the window of new streams, and adjusts those of open streams.
func (c *conn) setStreamWindowLocked(n int64) error {
	if n == c.out.streamWindow {
		return nil
	}
	for _, st := range c.streams {
		if !st.widenLocked(n - c.out.streamWindow) {
			return connectionError(http2.ErrCodeFlowControl)
		}
	}
	c.out.streamWindow = n
	return nil
}

// widenLocked changes a stream's send window, and wakes its handler if the window was closed and is now open. It
// returns false if the window exceeds the limit of HTTP/2.
func (st *stream) widenLocked(by int64) bool {
	before := st.window
	st.window += by
	if st.window > largestWindow {
		return false
	}
	if before <= 0 && st.window > 0 {
		st.changedLocked()
	}
	return true
}

func (c *conn) ping(f *http2.PingFrame) error {
	if f.IsAck() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.countNuisanceLocked(); err != nil {
		return err
	}
	c.out.pong(f.Data)
	return c.out.tooMuch()
}

const largestWindow = 1<<31 - 1

// windowUpdate handles a WINDOW_UPDATE frame.
func (c *conn) windowUpdate(f *http2.WindowUpdateFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.StreamID == 0 {
		if c.out.window += int64(f.Increment); c.out.window > largestWindow {
			return connectionError(http2.ErrCodeFlowControl)
		}
		c.wakeLocked()
		return nil
	}
	st, err := c.streamLocked(f.StreamID)
	if st != nil && !st.widenLocked(int64(f.Increment)) {
		return streamError(st.id, http2.ErrCodeFlowControl)
	}
	return err
}
