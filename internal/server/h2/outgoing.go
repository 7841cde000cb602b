package h2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	firstWindow  = 65535 // of streams and connection, until they are changed by settings or updates
	largestFrame = 16384 // until the client sets another size
	frameHeader  = 9
	// maxQueued is how many bytes of frames a connection queues: a handler that has more waits. Frames that the
	// protocol demands, such as acknowledged pings, may be queued beyond that, up to maxControlQueued.
	maxQueued        = 256 << 10
	maxControlQueued = 1 << 20
)

var errFlood = errors.New("h2: the client causes control frames faster than it reads them")

// outgoing is what waits to be sent. It is guarded by the connection's mu.
type outgoing struct {
	frames        []byte
	pooled        *[]byte   // the pooled memory of frames, from framePool
	writing       bool      // a goroutine is writing
	writeDeadline time.Time // the write deadline of the connection; used by the goroutine that writes
	waiting       []*stream // streams that wait for space in frames, or for the window of the connection; the first has waited longest

	window       int64 // how much data the client allows on the connection
	streamWindow int64 // how much data the client allows on a new stream
	largest      int   // largest frame
	block        bytes.Buffer
	encoder      *hpack.Encoder
}

func (o *outgoing) init() {
	o.window, o.streamWindow, o.largest = firstWindow, firstWindow, largestFrame
	o.encoder = hpack.NewEncoder(&o.block)
}

// framePool is memory for the frames of all connections: most of them have nothing to send most of the time.
var framePool = sync.Pool{New: func() any { return new([]byte) }}

// takeFramesLocked takes the queued frames, with the pooled memory that they are in.
func (o *outgoing) takeFramesLocked() (frames []byte, pooled *[]byte) {
	frames, pooled = o.frames, o.pooled
	o.frames, o.pooled = nil, nil
	return frames, pooled
}

func (o *outgoing) head(length int, kind http2.FrameType, flags http2.Flags, stream uint32) {
	if o.pooled == nil {
		o.pooled = framePool.Get().(*[]byte)
		o.frames = (*o.pooled)[:0]
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

func (o *outgoing) status(code int) {
	text := "200"
	if code != http.StatusOK {
		text = strconv.Itoa(code)
	}
	o.field(hpack.HeaderField{Name: ":status", Value: text})
}

// field appends a field to the header block that headers sends next.
func (o *outgoing) field(f hpack.HeaderField) {
	// Writing into a buffer cannot fail.
	_ = o.encoder.WriteField(f)
}

// headers queues the header block.
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

// data queues a piece of data that the windows allow.
func (o *outgoing) data(stream uint32, b []byte, end bool) {
	flags := http2.Flags(0)
	if end {
		flags = http2.FlagDataEndStream
	}
	o.head(len(b), http2.FrameData, flags, stream)
	o.frames = append(o.frames, b...)
}

// tooMuch returns an error if the client makes the server queue more control frames than the client reads.
func (o *outgoing) tooMuch() error {
	if len(o.frames) > maxControlQueued {
		return errFlood
	}
	return nil
}
