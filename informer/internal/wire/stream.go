package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/millrace/millrace/watch"
)

// stream is a watch in protobuf. If the first thing it receives is not protobuf it starts again with the fallback.
// Nothing is lost, since the options say where the watch starts.
type stream struct {
	fallback func() (watch.Stream[*Object], error)

	mu      sync.Mutex
	current watch.Stream[*Object] // guarded by mu
	stopped bool                  // guarded by mu
}

// Next implements watch.Stream.
func (s *stream) Next(ctx context.Context) (watch.Event[*Object], error) {
	s.mu.Lock()
	current := s.current
	s.mu.Unlock()
	event, err := current.Next(ctx)
	if !errors.Is(err, errNotProtobuf) {
		return event, err
	}
	next, err := s.fallback()
	if err != nil {
		return event, err
	}
	s.mu.Lock()
	s.current = next
	if s.stopped {
		next.Stop()
	}
	s.mu.Unlock()
	return next.Next(ctx)
}

// Ready reports whether Next would not have to wait.
func (s *stream) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	full, ok := s.current.(interface{ Ready() bool })
	return ok && full.Ready()
}

// Stop implements watch.Stream.
func (s *stream) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.current.Stop()
}

// frameDecoder reads watch events in protobuf: each is preceded by its length.
type frameDecoder struct {
	body   io.ReadCloser
	cancel context.CancelFunc
	reader *objectReader
	input  *bufio.Reader
	frame  []byte
}

// maxFrame bounds the memory that a faulty connection can make us allocate. Objects are a few megabytes at most.
const maxFrame = 64 << 20

// Most watches are quiet, and there are many: a buffer is small until there was much to read at once.
const quietBuffer, busyBuffer = 1 << 10, 16 << 10

// Decode implements watch.Decoder.
func (d *frameDecoder) Decode() (watch.Event[*Object], error) {
	if d.input == nil {
		d.input = bufio.NewReaderSize(d.body, quietBuffer)
		if start, err := d.input.Peek(1); err == nil && start[0] == '{' {
			return watch.Event[*Object]{}, errNotProtobuf
		}
	}
	var length [4]byte
	if _, err := io.ReadFull(d.input, length[:]); err != nil {
		return watch.Event[*Object]{}, err
	}
	size := int(binary.BigEndian.Uint32(length[:]))
	if size > maxFrame {
		return watch.Event[*Object]{}, fmt.Errorf("%w: a frame of %d bytes", ErrMalformed, size)
	}
	if d.input.Buffered() > quietBuffer/2 && d.input.Size() == quietBuffer {
		d.input = bufio.NewReaderSize(d.input, busyBuffer) // what it has is read first
	}
	if cap(d.frame) > 1<<20 && size < 1<<16 {
		d.frame = nil
	}
	d.frame = slices.Grow(d.frame[:0], size)[:size]
	if _, err := io.ReadFull(d.input, d.frame); err != nil {
		return watch.Event[*Object]{}, noEOF(err)
	}
	return d.open()
}

// Ready reports whether a whole event has been received.
func (d *frameDecoder) Ready() bool {
	if d.input == nil || d.input.Buffered() < 4 {
		return false
	}
	length, err := d.input.Peek(4)
	return err == nil && d.input.Buffered()-4 >= int(binary.BigEndian.Uint32(length))
}

// Close implements watch.Decoder.
func (d *frameDecoder) Close() error {
	d.cancel()
	return d.body.Close()
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
