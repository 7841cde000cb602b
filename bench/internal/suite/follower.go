package suite

import (
	"bytes"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2/hpack"
)

// follower reads one watch and counts its events. Only the reader uses the fields, except opened, done and
// startReading, until done is closed or the connection has ended.
type follower struct {
	// selects reports which events the watch should deliver; nil means all.
	selects func(seq int) bool
	want    int

	seen         []uint64 // a bit for each event
	count        int
	version      int
	wrong        int // events that came twice, out of order, or should not have come
	initial      int
	partial      []byte
	unpack       *unpacker
	sent         *clock
	took         []time.Duration
	total        *atomic.Int64
	startReading <-chan struct{} // nothing is read before it is closed
	opened       chan error
	openOnce     sync.Once
	done         chan struct{} // all events have been received, or no more will come
	doneOnce     sync.Once
	bookmark     func()
}

// clock has the times at which events were sent.
type clock struct{ at []atomic.Int64 }

func newClock(n int) *clock { return &clock{make([]atomic.Int64, n)} }

func (c *clock) start(seq int) { c.at[seq].Store(time.Now().UnixNano()) }
func (c *clock) since(seq int) time.Duration {
	return time.Duration(time.Now().UnixNano() - c.at[seq].Load())
}

func newFollower(events int, selects func(int) bool, total *atomic.Int64) *follower {
	f := &follower{selects: selects, seen: make([]uint64, (events+63)/64), total: total, opened: make(chan error, 1), done: make(chan struct{})}
	for seq := range events {
		if selects == nil || selects(seq) {
			f.want++
		}
	}
	return f
}

// Head implements h2.Sink.
func (f *follower) Head(status int, header []hpack.HeaderField) {
	f.openOnce.Do(func() {
		if status != 200 {
			f.opened <- statusError(status)
			return
		}
		f.opened <- nil
	})
	for _, h := range header {
		if h.Name == "content-encoding" && h.Value == "gzip" {
			f.unpack = newUnpacker(f.text)
		}
	}
}

type statusError int

func (e statusError) Error() string {
	return "a watch was answered with status " + strconv.Itoa(int(e))
}

// Data implements h2.Sink.
func (f *follower) Data(b []byte) {
	if f.startReading != nil {
		<-f.startReading
	}
	if f.unpack != nil {
		f.unpack.add(b)
		return
	}
	f.text(b)
}

// End implements h2.Sink.
func (f *follower) End(err error) {
	f.openOnce.Do(func() { f.opened <- err })
	if f.unpack != nil {
		f.unpack.end()
	}
	f.finish()
}

func (f *follower) finish() { f.doneOnce.Do(func() { close(f.done) }) }

// text reads a piece of the stream, which may begin and end anywhere.
func (f *follower) text(b []byte) {
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			f.partial = append(f.partial, b...)
			return
		}
		line := b[:end]
		if len(f.partial) > 0 {
			f.partial = append(f.partial, line...)
			line = f.partial
		}
		f.line(line)
		f.partial = f.partial[:0]
		b = b[end+1:]
	}
}

var (
	seqMark     = []byte("seq=")
	versionMark = []byte(`"resourceVersion":"`)
	typeMark    = []byte(`{"type":"`)
)

// line reads one event.
func (f *follower) line(b []byte) {
	kind := bytes.TrimPrefix(b, typeMark)
	switch {
	case bytes.HasPrefix(kind, []byte("BOOKMARK")):
		if f.bookmark != nil {
			f.bookmark()
		}
		return
	case bytes.HasPrefix(kind, []byte("ERROR")):
		f.finish()
		return
	}
	seq := number(b, seqMark)
	if seq < 0 || seq >= len(f.seen)*64 {
		f.initial++ // a bookmark, not an event of the case
		f.total.Add(1)
		return
	}
	version := number(b, versionMark)
	word, bit := seq/64, uint64(1)<<(seq%64)
	if f.seen[word]&bit != 0 || version <= f.version || f.selects != nil && !f.selects(seq) {
		f.wrong++
	}
	f.seen[word] |= bit
	f.version = version
	if f.sent != nil {
		f.took = append(f.took, f.sent.since(seq))
	}
	f.count++
	f.total.Add(1)
	if f.count == f.want {
		f.finish()
	}
}

// number parses the digits after a mark; -1 if there are none.
func number(b, mark []byte) int {
	at := bytes.Index(b, mark)
	if at < 0 {
		return -1
	}
	n, digits := 0, 0
	for _, c := range b[at+len(mark):] {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int(c-'0')
		digits++
	}
	if digits == 0 {
		return -1
	}
	return n
}

// lost returns the number of events that were lost, duplicated or out of order.
func (f *follower) lost() int {
	missing := f.want
	for _, w := range f.seen {
		for ; w != 0; w &= w - 1 {
			missing--
		}
	}
	return max(missing, 0) + f.wrong
}
