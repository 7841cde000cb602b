package h2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	firstWindow  = 65535 // of everything, before anybody says otherwise
	largestFrame = 16384 // before anybody says otherwise
	frameHeader  = 9
	// plenty is how much may wait to be sent before those who have more must wait, far is how much even what must be said
	// may come to.
	plenty = 256 << 10
	far    = 1 << 20
)

var errFlood = errors.New("h2: the client asks faster than it reads")

// outgoing is what waits to be sent. It is guarded by the connection's mu.
type outgoing struct {
	frames  []byte
	box     *[]byte   // where the frames' memory comes from and goes to
	writing bool      // somebody is writing
	takes   time.Time // until when the client may take nothing; of who is writing
	waiting []*stream // for room in frames, or for the client to allow more on the connection: who came first goes first

	window       int64 // how much data the client allows
	streamWindow int64 // and how much of a stream, at first
	largest      int   // frame
	block        bytes.Buffer
	encoder      *hpack.Encoder
}

func (o *outgoing) init() {
	o.window, o.streamWindow, o.largest = firstWindow, firstWindow, largestFrame
	o.encoder = hpack.NewEncoder(&o.block)
}

// boxes are used again, by all connections: most have nothing to send most of the time.
var boxes = sync.Pool{New: func() any { return new([]byte) }}

// unpackLocked takes what waits.
func (o *outgoing) unpackLocked() (frames []byte, box *[]byte) {
	frames, box = o.frames, o.box
	o.frames, o.box = nil, nil
	return frames, box
}

func (o *outgoing) head(length int, kind http2.FrameType, flags http2.Flags, stream uint32) {
	if o.box == nil {
		o.box = boxes.Get().(*[]byte)
		o.frames = (*o.box)[:0]
	}
	o.frames = append(o.frames, byte(length>>16), byte(length>>8), byte(length), byte(kind), byte(flags))
	o.frames = binary.BigEndian.AppendUint32(o.frames, stream)
}

func (o *outgoing) number(n uint32) { o.frames = binary.BigEndian.AppendUint32(o.frames, n) }

func (o *outgoing) settings(all ...http2.Setting) {
	o.head(6*len(all), http2.FrameSettings, 0, 0)
	for _, s := range all {
		o.frames = binary.BigEndian.AppendUint16(o.frames, uint16(s.ID))
		o.number(s.Val)
	}
}

func (o *outgoing) settingsAck() { o.head(0, http2.FrameSettings, http2.FlagSettingsAck, 0) }

func (o *outgoing) pong(data [8]byte) {
	o.head(len(data), http2.FramePing, http2.FlagPingAck, 0)
	o.frames = append(o.frames, data[:]...)
}

func (o *outgoing) windowUpdate(stream, by uint32) {
	if by == 0 {
		return
	}
	o.head(4, http2.FrameWindowUpdate, 0, stream)
	o.number(by)
}

func (o *outgoing) reset(stream uint32, code http2.ErrCode) {
	o.head(4, http2.FrameRSTStream, 0, stream)
	o.number(uint32(code))
}

func (o *outgoing) goAway(last uint32, code http2.ErrCode) {
	o.head(8, http2.FrameGoAway, 0, 0)
	o.number(last)
	o.number(uint32(code))
}

// field adds to the block that the next headers send.
func (o *outgoing) field(f hpack.HeaderField) {
	// Writing into a buffer cannot fail.
	_ = o.encoder.WriteField(f)
}

// headers sends the block.
func (o *outgoing) headers(stream uint32, end bool) {
	kind, flags := http2.FrameHeaders, http2.Flags(0)
	if end {
		flags = http2.FlagHeadersEndStream
	}
	for first := true; first || o.block.Len() > 0; first = false {
		part := o.block.Next(o.largest)
		if o.block.Len() == 0 {
			flags |= http2.FlagHeadersEndHeaders
		}
		o.head(len(part), kind, flags, stream)
		o.frames = append(o.frames, part...)
		kind, flags = http2.FrameContinuation, 0
	}
	o.block.Reset()
}

// data sends a piece that the windows allow.
func (o *outgoing) data(stream uint32, b []byte, end bool) {
	flags := http2.Flags(0)
	if end {
		flags = http2.FlagDataEndStream
	}
	o.head(len(b), http2.FrameData, flags, stream)
	o.frames = append(o.frames, b...)
}

// tooMuch tells that a client makes the server say more than it cares to read.
func (o *outgoing) tooMuch() error {
	if len(o.frames) > far {
		return errFlood
	}
	return nil
}

// wakeLocked lets the one go on that has waited longest, if there is room for it. It wakes the next one when it has taken
// its part, or cannot: to wake all for a few bytes would let a client that allows a few at a time keep the server busy.
func (o *outgoing) wakeLocked() {
	if len(o.waiting) == 0 || o.window == 0 || len(o.frames) >= plenty {
		return
	}
	st := o.waiting[0]
	o.waiting[0] = nil
	o.waiting = o.waiting[1:]
	st.queued, st.next = false, true
	st.changed.Broadcast()
}

// queueLocked lets a stream wait for room, unless it is its own window that it waits for.
func (o *outgoing) queueLocked(st *stream) {
	if st.window > 0 && !st.queued {
		st.queued = true
		o.waiting = append(o.waiting, st)
	}
	if st.next {
		st.next = false
		o.wakeLocked()
	}
}

// leaveLocked lets a stream wait for room no longer.
func (o *outgoing) leaveLocked(st *stream) {
	st.next = false
	if st.queued {
		st.queued = false
		o.waiting = slices.DeleteFunc(o.waiting, func(other *stream) bool { return other == st })
	}
	o.wakeLocked()
}

// roomLocked waits until some of n bytes of a stream may be queued, and tells how many. Who finds others waiting waits behind
// them; whose turn it is goes on while there is room. When it has what it needs it is to leave.
func (c *conn) roomLocked(st *stream, n int) (int, error) {
	o := &c.out
	for {
		if err := st.usableLocked(); err != nil {
			return 0, err
		}
		n := min(int64(n), int64(o.largest), st.window, o.window)
		if n > 0 && len(o.frames) < plenty && (st.next || len(o.waiting) == 0) {
			st.next = true
			st.window -= n
			o.window -= n
			return int(n), nil
		}
		if !o.writing && len(o.frames) > 0 {
			st.next = false
			c.flushLocked()
			continue
		}
		if st.answer.over {
			c.hurryLocked(st)
		}
		o.queueLocked(st)
		st.changed.Wait()
	}
}

// flushLocked sends what waits, unless somebody is writing already. It gives mu away while it writes. What has come in the
// meantime is somebody else's work, or the caller could be kept for ever.
func (c *conn) flushLocked() {
	if !c.out.writing {
		c.writeLocked()
		c.handOverLocked()
	}
}

// handOverLocked lets somebody else send what waits, and part if that was all. It is for those, too, whom a client that
// does not read must not keep: the reader, and who ends connections.
func (c *conn) handOverLocked() {
	if !c.out.writing && c.err == nil && (len(c.out.frames) > 0 || c.endsLocked()) {
		c.server.crew.start((*rest)(c))
	}
}

// writeLocked writes all that waits, and tells whether there was something: then it is to be followed by handing over what
// has come since. Before it does, those run that are ready to add more: a write for each of many would cost each of them
// more than all else.
func (c *conn) writeLocked() bool {
	o := &c.out
	if len(o.frames) == 0 || c.err != nil {
		return false
	}
	o.writing = true
	c.mu.Unlock()
	runtime.Gosched()
	c.mu.Lock()
	b, box := o.unpackLocked()
	c.mu.Unlock()
	err := c.write(b)
	if box != nil && cap(b) <= 2*plenty {
		*box = b[:0]
		boxes.Put(box)
	}
	c.mu.Lock()
	o.writing = false
	if err != nil {
		c.net.NetConn().Close() // and the reader sees it
		c.failLocked(errClientGone)
		return true
	}
	o.wakeLocked()
	return true
}

// write writes in pieces, so that a client that is slow is not taken for one that takes nothing.
func (c *conn) write(b []byte) error {
	for len(b) > 0 {
		if err := c.patience(); err != nil {
			return err
		}
		n, err := c.net.Write(b[:min(len(b), 4*largestFrame)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// patience gives the client at least as long as Options.Stall to take the next piece, and at most twice as long: to say so
// for each piece would cost more.
func (c *conn) patience() error {
	now := time.Now()
	if stall := c.server.o.Stall; c.out.takes.Sub(now) < stall {
		c.out.takes = now.Add(2 * stall)
		return c.net.SetWriteDeadline(c.out.takes)
	}
	return nil
}

// rest is a connection of which somebody writes what others have left.
type rest conn

func (r *rest) do() {
	c := (*conn)(r)
	c.mu.Lock()
	for !c.out.writing && c.writeLocked() {
	}
	ended := !c.out.writing && c.endsLocked() // whoever is writing hands over again
	c.parted = c.parted || ended
	used := c.last > 0 || c.misused
	c.mu.Unlock()
	if !ended {
		return
	}
	// The reader sees the end. Go's client gives up a request for which it finds its new connection closed, though it sends it
	// again when it only hears that it is to go away: so who has not asked yet may leave by itself.
	if used {
		c.net.CloseWrite()
	}
	c.net.SetReadDeadline(time.Now().Add(parts))
}
