package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/millrace/millrace/internal/server/store"
)

// A record is a header of two numbers (the length of the body and its CRC-32C, little-endian) and the body: a byte that
// tells whether the rest is compressed, and the changes. A length of zero is the end: nothing has been written there.
const (
	headerBytes   = 8
	maxBodyBytes  = 64 << 20
	plainBody     = 0
	zstdBody      = 1
	compressAbove = 256
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)

	// errEnd is the end of what has been written, and errBroken a record that is not as it was written.
	errEnd    = errors.New("end of the records")
	errBroken = errors.New("broken record")
)

// change is one change as it is on disk.
type change struct {
	key      string
	value    []byte
	deleted  bool
	revision store.Revision
	expires  time.Time
}

// codec encodes and decodes records. It is for one goroutine.
type codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
	plain   []byte
}

func newCodec() *codec {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // only options that do not exist can fail
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBodyBytes))
	if err != nil {
		panic(err)
	}
	return &codec{encoder: encoder, decoder: decoder}
}

func (c *codec) close() {
	c.decoder.Close()
	_ = c.encoder.Close() // nothing is open
}

// append appends the record of some changes.
func (c *codec) append(b []byte, changes []change) []byte {
	c.plain = appendChanges(c.plain[:0], changes)
	start := len(b)
	b = append(b, make([]byte, headerBytes)...)
	if len(c.plain) > compressAbove {
		b = c.encoder.EncodeAll(c.plain, append(b, zstdBody))
	} else {
		b = append(append(b, plainBody), c.plain...)
	}
	body := b[start+headerBytes:]
	binary.LittleEndian.PutUint32(b[start:], uint32(len(body)))
	binary.LittleEndian.PutUint32(b[start+4:], crc32.Checksum(body, castagnoli))
	return b
}

// read reads the record at the start of b and returns its length. The values of the changes are their own.
func (c *codec) read(b []byte) (changes []change, length int, err error) {
	if len(b) < headerBytes {
		return nil, 0, errEnd
	}
	n := int64(binary.LittleEndian.Uint32(b))
	switch {
	case n == 0 && binary.LittleEndian.Uint32(b[4:]) == 0:
		return nil, 0, errEnd
	case n < 1 || n > maxBodyBytes || n > int64(len(b)-headerBytes):
		return nil, 0, errBroken
	}
	body := b[headerBytes : headerBytes+n]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
		return nil, 0, errBroken
	}
	plain := body[1:]
	switch body[0] {
	case plainBody:
		plain = append([]byte(nil), plain...)
	case zstdBody:
		if plain, err = c.decoder.DecodeAll(plain, nil); err != nil {
			return nil, 0, fmt.Errorf("%w: %w", errBroken, err)
		}
	default:
		return nil, 0, fmt.Errorf("%w: form %d", errBroken, body[0])
	}
	changes, err = readChanges(plain)
	return changes, headerBytes + int(n), err
}

func appendChanges(b []byte, changes []change) []byte {
	for _, c := range changes {
		kind, expires := byte(store.Put), int64(0)
		if c.deleted {
			kind = byte(store.Delete)
		}
		if !c.expires.IsZero() {
			expires = c.expires.UnixMilli()
		}
		b = append(b, kind)
		b = binary.AppendUvarint(b, uint64(c.revision))
		b = binary.AppendVarint(b, expires)
		b = binary.AppendUvarint(b, uint64(len(c.key)))
		b = append(b, c.key...)
		b = binary.AppendUvarint(b, uint64(len(c.value)))
		b = append(b, c.value...)
	}
	return b
}

// readChanges reads the changes of a body. The values are parts of b.
func readChanges(b []byte) (changes []change, err error) {
	r := reader{b: b}
	for len(r.b) > 0 && r.err == nil {
		kind := r.byte()
		c := change{deleted: kind == byte(store.Delete), revision: store.Revision(r.uvarint(math.MaxInt64))}
		if kind > byte(store.Delete) {
			r.fail()
		}
		if at := r.varint(); at != 0 {
			c.expires = time.UnixMilli(at)
		}
		c.key = string(r.bytes())
		c.value = r.bytes()
		changes = append(changes, c)
	}
	if r.err != nil {
		return nil, r.err
	}
	return changes, nil
}

// reader reads numbers and texts, and remembers the first failure.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail() {
	r.b, r.err = nil, errBroken
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) uvarint(most uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > most {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint(uint64(len(r.b)))
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	s := r.b[:n:n]
	r.b = r.b[n:]
	return s
}
