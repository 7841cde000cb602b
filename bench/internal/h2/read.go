package h2

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"golang.org/x/net/http2"
)

var errClosed = errors.New("the connection was closed")

// read passes on what arrives until the connection ends.
func (c *Conn) read() {
	defer close(c.ended)
	var err error
	for err == nil {
		var f http2.Frame
		if f, err = c.framer.ReadFrame(); err == nil {
			err = c.handle(f)
		}
	}
	if errors.Is(err, io.EOF) {
		err = errClosed
	}
	c.net.Close()
	c.mu.Lock()
	c.failLocked(err)
	left := c.streams
	c.streams = map[uint32]*stream{}
	c.mu.Unlock()
	for _, s := range left {
		s.sink.End(err)
	}
}

// failLocked records why the connection cannot be used any more. The first reason is kept.
func (c *Conn) failLocked(err error) error {
	if c.err == nil {
		c.err = err
	}
	c.writable.Broadcast()
	return c.err
}

func (c *Conn) handle(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.DataFrame:
		return c.data(f)
	case *http2.MetaHeadersFrame:
		return c.headers(f)
	case *http2.RSTStreamFrame:
		c.end(f.StreamID, fmt.Errorf("the server reset the stream: %v", f.ErrCode))
	case *http2.SettingsFrame:
		return c.settings(f)
	case *http2.PingFrame:
		return c.pong(f)
	case *http2.WindowUpdateFrame:
		c.widen(f)
	case *http2.GoAwayFrame:
		return fmt.Errorf("the server is going away: %v %s", f.ErrCode, f.DebugData())
	}
	return nil
}

func (c *Conn) find(id uint32) *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams[id]
}

// end removes a stream and calls its sink's End.
func (c *Conn) end(id uint32, err error) {
	c.mu.Lock()
	s := c.streams[id]
	delete(c.streams, id)
	c.writable.Broadcast()
	c.mu.Unlock()
	if s != nil {
		s.sink.End(err)
	}
}

func (c *Conn) data(f *http2.DataFrame) error {
	s := c.find(f.StreamID)
	n := int64(f.Length)
	c.received += n
	if s != nil {
		s.sink.Data(f.Data())
		s.received += n
	}
	if f.StreamEnded() {
		c.end(f.StreamID, nil)
		s = nil
	}
	return c.returnWindow(s)
}

// returnWindow sends a WINDOW_UPDATE before the server has used its window.
func (c *Conn) returnWindow(s *stream) error {
	ofStream := s != nil && s.received >= streamWindow/2
	if !ofStream && c.received < connectionWindow/2 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ofStream {
		if err := c.framer.WriteWindowUpdate(s.id, uint32(s.received)); err != nil {
			return err
		}
		s.received = 0
	}
	if c.received >= connectionWindow/2 {
		if err := c.framer.WriteWindowUpdate(0, uint32(c.received)); err != nil {
			return err
		}
		c.received = 0
	}
	return c.out.Flush()
}

func (c *Conn) headers(f *http2.MetaHeadersFrame) error {
	if s := c.find(f.StreamID); s != nil {
		if text := f.PseudoValue("status"); text != "" {
			status, err := strconv.Atoi(text)
			if err != nil {
				return fmt.Errorf("status %q: %w", text, err)
			}
			s.sink.Head(status, f.RegularFields())
		}
	}
	if f.StreamEnded() {
		c.end(f.StreamID, nil)
	}
	return nil
}

func (c *Conn) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := f.ForeachSetting(func(s http2.Setting) error {
		switch s.ID {
		case http2.SettingInitialWindowSize:
			for _, open := range c.streams {
				open.window += int64(s.Val) - c.initialWindow
			}
			c.initialWindow = int64(s.Val)
		case http2.SettingMaxFrameSize:
			c.maxFrame = int(s.Val)
		case http2.SettingMaxConcurrentStreams:
			c.maxStreams = int(s.Val)
		case http2.SettingHeaderTableSize:
			c.encoder.SetMaxDynamicTableSizeLimit(s.Val)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.writable.Broadcast()
	c.settle.Do(func() { close(c.settled) })
	if err := c.framer.WriteSettingsAck(); err != nil {
		return err
	}
	return c.out.Flush()
}

func (c *Conn) pong(f *http2.PingFrame) error {
	if f.IsAck() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.framer.WritePing(true, f.Data); err != nil {
		return err
	}
	return c.out.Flush()
}

func (c *Conn) widen(f *http2.WindowUpdateFrame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.StreamID == 0 {
		c.sendWindow += int64(f.Increment)
	} else if s := c.streams[f.StreamID]; s != nil {
		s.window += int64(f.Increment)
	}
	c.writable.Broadcast()
}
