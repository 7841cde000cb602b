package limit

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/flate"
)

// feed is the list of frames that watchers read. Each frame is made once.
type feed struct {
	mu      sync.RWMutex
	last    *frame        // guarded by mu
	wake    chan struct{} // closed when a frame is appended; guarded by mu
	version int           // guarded by mu
}

// frame is immutable but for next, which is set once.
type frame struct {
	plain  []byte
	packed func() []byte // made at the first call
	next   atomic.Pointer[frame]
}

func newFeed() *feed { return &feed{last: &frame{}, wake: make(chan struct{})} }

func (f *frame) bytes(packed bool) []byte {
	if packed {
		return f.packed()
	}
	return f.plain
}

const versionMark = `"resourceVersion":"`

// append adds an event with an object. Each has a new resource version.
func (f *feed) append(object []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	var b bytes.Buffer
	b.WriteString(`{"type":"MODIFIED","object":`)
	if before, behind, ok := bytes.Cut(object, []byte(versionMark)); ok {
		_, behind, _ = bytes.Cut(behind, []byte{'"'})
		fmt.Fprintf(&b, `%s%s%d"%s`, before, versionMark, f.version, behind)
	} else {
		b.Write(object)
	}
	b.WriteString("}\n")
	next := &frame{plain: b.Bytes(), packed: sync.OnceValue(func() []byte { return deflated(b.Bytes()) })}
	f.last.next.Store(next)
	f.last = next
	close(f.wake)
	f.wake = make(chan struct{})
}

func (f *feed) end() *frame {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.last
}

// after returns the next frame, or, if there is none, a channel that is closed when there is one.
func (f *feed) after(at *frame) (*frame, <-chan struct{}) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return at.next.Load(), f.wake
}

var gzipHead = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255}

var deflaters = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, 1)
	if err != nil {
		panic(err) // the level is valid
	}
	return w
}}

// deflated returns a piece of a gzip stream that ends on a byte boundary.
func deflated(text []byte) []byte {
	var b bytes.Buffer
	w := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(w)
	w.Reset(&b)
	w.Write(text)
	w.Flush()
	return b.Bytes()
}
