package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/watch"
)

// open reads the event in the frame.
func (d *frameDecoder) open() (watch.Event[*Object], error) {
	var event watch.Event[*Object]
	kind, sent, err := openEvent(d.frame)
	if err != nil {
		return event, err
	}
	event.Type = watch.EventType(kind)
	if event.Type == watch.Error {
		event.Err = readStatus(sent)
		return event, nil
	}
	object, err := protobuf.Content(sent)
	switch {
	case err != nil:
		return event, fmt.Errorf("%s event: %w: %w", kind, ErrMalformed, err)
	case event.Type == watch.Bookmark:
		event.Object, err = d.reader.readBookmark(object)
	default:
		event.Object, err = d.reader.read(object)
	}
	return event, err
}

func readStatus(sent []byte) error {
	e, err := protobuf.Open(sent)
	if err != nil {
		return fmt.Errorf("error event: %w: %w", ErrMalformed, err)
	}
	if e.Kind != "Status" {
		return fmt.Errorf("error event with a %s", e.Kind)
	}
	var status metav1.Status
	if err := status.Unmarshal(e.Raw); err != nil {
		return fmt.Errorf("error event: %w", err)
	}
	return apierrors.FromObject(&status)
}

// listReader reads a list while it arrives. Apart from the objects that are kept, at most one is in memory.
type listReader struct {
	input  *bufio.Reader
	reader *objectReader
	buffer []byte
	items  []*Object
	list   metav1.ListMeta
}

const (
	listMeta  = 1
	listItems = 2
)

// read reads the envelope.
func (l *listReader) read() error {
	if _, err := l.input.Discard(len(protobuf.Magic)); err != nil {
		return err
	}
	for {
		number, size, err := l.field(-1)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case number == envelopeRaw:
			err = l.readList(size)
		default:
			_, err = l.input.Discard(size)
		}
		if err != nil {
			return noEOF(err)
		}
	}
}

// readList reads the list inside the envelope.
func (l *listReader) readList(left int) error {
	for left > 0 {
		number, size, err := l.field(left)
		if err != nil {
			return noEOF(err)
		}
		left -= protobuf.Size(protobuf.Number(number), size)
		value, err := l.bytes(size)
		if err != nil {
			return err
		}
		switch number {
		case listMeta:
			l.list, err = readListMeta(value)
		case listItems:
			var it *Object
			if it, err = l.reader.read(value); err == nil {
				l.items = append(l.items, it)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// field reads the tag and the size of a field; all fields here contain bytes. The error is io.EOF only between fields.
func (l *listReader) field(left int) (number, size int, err error) {
	tag, err := binary.ReadUvarint(l.input)
	if err != nil {
		return 0, 0, err
	}
	length, err := binary.ReadUvarint(l.input)
	if err != nil {
		return 0, 0, noEOF(err)
	}
	if tag&7 != 2 || tag>>3 > uint64(protowire.MaxValidNumber) || left >= 0 && length > uint64(left) || length > 1<<40 {
		return 0, 0, ErrMalformed
	}
	return int(tag >> 3), int(length), nil
}

// bytes reads into the buffer, which the next call overwrites.
func (l *listReader) bytes(size int) ([]byte, error) {
	if size > maxFrame {
		return nil, fmt.Errorf("%w: an object of %d bytes", ErrMalformed, size)
	}
	if cap(l.buffer) < size {
		l.buffer = make([]byte, max(size, 16<<10))
	}
	_, err := io.ReadFull(l.input, l.buffer[:size])
	return l.buffer[:size], noEOF(err)
}
