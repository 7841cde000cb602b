package tree

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/millrace/millrace/internal/jsontext"
	"github.com/millrace/millrace/internal/server/resource/decode"
)

// Append appends the JSON of a tree, byte for byte as encoding/json writes it, at a quarter of its cost.
func Append(b []byte, object map[string]any) ([]byte, error) {
	e := encoders.Get().(*encoder)
	defer e.release()
	return e.object(b, object)
}

// encoder reuses memory for the names of maps, which are written in sorted order.
type encoder struct {
	names []string // a stack
	room  []byte   // for texts that are copied
}

var encoders = sync.Pool{New: func() any { return &encoder{} }}

// These bound the memory that is kept. The names are cleared each time.
const (
	maxNames = 512
	maxRoom  = 16 << 10
)

func (e *encoder) release() {
	if cap(e.names) > maxNames || cap(e.room) > maxRoom {
		return
	}
	clear(e.names[:cap(e.names)])
	e.names = e.names[:0]
	encoders.Put(e)
}

func (e *encoder) value(b []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return append(b, "null"...), nil
	case string:
		return jsontext.Quote(b, v), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case map[string]any:
		return e.object(b, v)
	case []any:
		return e.list(b, v)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode a %T: %w", value, err)
	}
	return append(b, text...), nil
}

func (e *encoder) object(b []byte, object map[string]any) (_ []byte, err error) {
	if object == nil {
		return append(b, "null"...), nil
	}
	from := len(e.names)
	for name := range object {
		e.names = append(e.names, name)
	}
	// Nested maps push their names on top; if that moves the stack, this slice stays valid.
	names := e.names[from:]
	slices.Sort(names)
	b = append(b, '{')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(jsontext.Quote(b, name), ':')
		if b, err = e.value(b, object[name]); err != nil {
			return nil, err
		}
	}
	e.names = e.names[:from]
	return append(b, '}'), nil
}

func (e *encoder) list(b []byte, list []any) (_ []byte, err error) {
	if list == nil {
		return append(b, "null"...), nil
	}
	b = append(b, '[')
	for i, value := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = e.value(b, value); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

// canonical returns a value as Append writes it, and the value itself if it had to be decoded for that. ok is false for
// values that are ambiguous: other texts may mean the same, or nothing at all.
func canonical(text string) (same string, value any, ok bool) {
	c := jsontext.Canonical{Text: text}
	if c.Skip() && c.At == len(text) {
		return text, nil, !c.Ambiguous
	}
	if value, ok = decode.Value(text); !ok || jsontext.Ambiguous(value) {
		return "", nil, false
	}
	return encoded(value), value, true
}

// encoded returns the text of a value that was decoded.
func encoded(value any) string {
	e := encoders.Get().(*encoder)
	defer e.release()
	e.room, _ = e.value(e.room[:0], value) // fails only for values of other types
	return string(e.room)
}
