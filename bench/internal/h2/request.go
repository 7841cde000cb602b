package h2

import (
	"context"
	"fmt"
	"strconv"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Request is a request. Header names are in lower case.
type Request struct {
	Method, Path string
	Header       []hpack.HeaderField
	Body         []byte
}

// Stream is an answer in progress.
type Stream struct {
	conn *Conn
	id   uint32
}

// Open sends a request. The answer is passed to the sink.
func (c *Conn) Open(r Request, sink Sink) (Stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && len(c.streams) >= c.maxStreams {
		c.writable.Wait()
	}
	if c.err != nil {
		return Stream{}, c.err
	}
	s := &stream{id: c.next, sink: sink, window: c.initialWindow}
	c.next += 2
	c.streams[s.id] = s
	if err := c.writeHeadLocked(s.id, r); err != nil {
		return Stream{}, c.failLocked(err)
	}
	if err := c.writeBodyLocked(s, r.Body); err != nil {
		return Stream{}, c.failLocked(err)
	}
	return Stream{c, s.id}, nil
}

func (c *Conn) writeHeadLocked(id uint32, r Request) error {
	c.block.Reset()
	c.field(":method", r.Method)
	c.field(":scheme", "https")
	c.field(":authority", c.authority)
	c.field(":path", r.Path)
	for _, h := range r.Header {
		c.field(h.Name, h.Value)
	}
	if len(r.Body) > 0 {
		c.field("content-length", strconv.Itoa(len(r.Body)))
	}
	return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block.Bytes(), EndHeaders: true, EndStream: len(r.Body) == 0})
}

func (c *Conn) field(name, value string) {
	// Writing into a buffer cannot fail.
	_ = c.encoder.WriteField(hpack.HeaderField{Name: name, Value: value})
}

// writeBodyLocked sends a body, in pieces that the server's windows allow, after the frames that are waiting.
func (c *Conn) writeBodyLocked(s *stream, body []byte) error {
	for len(body) > 0 {
		n := min(int64(len(body)), int64(c.maxFrame), s.window, c.sendWindow)
		if n <= 0 {
			if c.err != nil {
				return c.err
			}
			if c.streams[s.id] == nil {
				return nil // the answer is complete
			}
			if err := c.out.Flush(); err != nil {
				return err
			}
			c.writable.Wait()
			continue
		}
		s.window -= n
		c.sendWindow -= n
		if err := c.framer.WriteData(s.id, n == int64(len(body)), body[:n]); err != nil {
			return err
		}
		body = body[n:]
	}
	return c.out.Flush()
}

// Cancel ends an answer in progress. It calls the sink's End from its own goroutine, while the reader may still be
// calling the sink's Data.
func (s Stream) Cancel() {
	c := s.conn
	c.mu.Lock()
	open := c.streams[s.id]
	delete(c.streams, s.id)
	if open != nil && c.err == nil {
		if c.framer.WriteRSTStream(s.id, http2.ErrCodeCancel) == nil {
			c.out.Flush()
		}
	}
	c.writable.Broadcast()
	c.mu.Unlock()
	if open != nil {
		open.sink.End(context.Canceled)
	}
}

// Answer is a complete answer.
type Answer struct {
	Status int
	Header []hpack.HeaderField
	Body   []byte
}

// whole collects an answer.
type whole struct {
	answer  Answer
	discard bool
	size    int64
	err     error
	done    chan struct{}
}

func (w *whole) Head(status int, header []hpack.HeaderField) {
	w.answer.Status = status
	w.answer.Header = append(w.answer.Header[:0], header...)
}

func (w *whole) Data(b []byte) {
	w.size += int64(len(b))
	if !w.discard {
		w.answer.Body = append(w.answer.Body, b...)
	}
}

func (w *whole) End(err error) {
	w.err = err
	close(w.done)
}

// Do sends a request and waits for the answer.
func (c *Conn) Do(ctx context.Context, r Request) (Answer, error) {
	w := &whole{done: make(chan struct{})}
	if err := c.wait(ctx, r, w); err != nil {
		return Answer{}, err
	}
	return w.answer, nil
}

// Size does the same, but only counts the bytes of the body, unless the answer is an error.
func (c *Conn) Size(ctx context.Context, r Request) (int64, error) {
	w := &whole{done: make(chan struct{}), discard: true}
	if err := c.wait(ctx, r, w); err != nil {
		return 0, err
	}
	if w.answer.Status/100 != 2 {
		return 0, fmt.Errorf("%s %s: status %d", r.Method, r.Path, w.answer.Status)
	}
	return w.size, nil
}

func (c *Conn) wait(ctx context.Context, r Request, w *whole) error {
	s, err := c.Open(r, w)
	if err != nil {
		return err
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	s.Cancel()
	<-w.done
	return ctx.Err()
}

// Expect is Do that returns an error for any status but success.
func (c *Conn) Expect(ctx context.Context, r Request) ([]byte, error) {
	a, err := c.Do(ctx, r)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.Path, err)
	case a.Status/100 != 2:
		return nil, fmt.Errorf("%s %s: status %d: %.300s", r.Method, r.Path, a.Status, a.Body)
	}
	return a.Body, nil
}
