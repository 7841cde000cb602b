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

// A record is a header and a body. The header has three numbers, little-endian: the length of the body, its CRC-32C,
// and the CRC-32C of the two before. A header of zeros is the end: nothing has been written there.
//
// A body is a byte of flags, the first revision of its group, and changes. A group is what becomes durable together,
// in one or more records, the last of which says so. The sums begin with the salt of the file, which no client can
// know: then nothing that a client has written looks like a record. The body of an index has what index.go says in
// place of changes.
const (
	headerBytes   = 12
	maxBodyBytes  = 64 << 20
	compressAbove = 256

	// recordBytes is how many bytes of changes a record has, about. Tests have smaller records.
	recordBytes = 64 << 10
)

// The flags of a record.
const (
	compressed = 1 << iota
	lastOfGroup
	ofIndex
	flagsEnd
)

// The flags of a change.
const (
	deletion = 1 << iota
	noted
	creation
	forgetting
	changeFlagsEnd
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
	created  bool // the key did not exist before
	revision store.Revision
	expires  time.Time
	time     time.Time // when it was made; zero if that is not known
	note     []byte    // what is kept beside it
	// forgotten says that value and note were removed on purpose: nobody may know any more what the change was.
	forgotten bool
}

// record is what a body holds.
type record struct {
	group   store.Revision // the first revision of its group; that of a snapshot's state
	last    bool
	changes []change
}

// codec encodes and decodes records. It is for one goroutine.
type codec struct {
	encoder     *zstd.Encoder
	decoder     *zstd.Decoder
	plain       []byte // what is encoded, or was decoded last
	stored      []byte // what is decoded
	recordBytes int
}

func newCodec() *codec {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // only options that do not exist can fail
	}
	c := newDecoder()
	c.encoder = encoder
	return c
}

// newDecoder makes a codec that only decodes.
func newDecoder() *codec {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBodyBytes))
	if err != nil {
		panic(err)
	}
	return &codec{decoder: decoder, recordBytes: recordBytes}
}

func (c *codec) close() {
	c.decoder.Close()
	_ = c.encoder.Close() // nothing is open
}

// appendGroup appends the records of a group, and returns where each is.
func (c *codec) appendGroup(b []byte, s salt, group store.Revision, changes []change) ([]byte, []span) {
	var spans []span
	for {
		n, size := 0, 0
		for n < len(changes) && size < c.recordBytes {
			size += len(changes[n].key) + len(changes[n].value)
			n++
		}
		start := len(b)
		b = c.append(b, s, record{group: group, changes: changes[:n], last: n == len(changes)})
		spans = append(spans, span{start, len(b) - start, n})
		if changes = changes[n:]; len(changes) == 0 {
			return b, spans
		}
	}
}

// append appends one record.
func (c *codec) append(b []byte, s salt, r record) []byte {
	c.plain = appendChanges(c.plain[:0], r.changes)
	var flags byte
	if r.last {
		flags |= lastOfGroup
	}
	return c.frame(b, s, flags, r.group, c.plain)
}

// frame appends a record with a content.
func (c *codec) frame(b []byte, s salt, flags byte, group store.Revision, content []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, headerBytes+1)...)
	b = binary.AppendUvarint(b, uint64(group))
	if len(content) > compressAbove {
		flags |= compressed
		b = c.encoder.EncodeAll(content, b)
	} else {
		b = append(b, content...)
	}
	header, body := b[start:start+headerBytes], b[start+headerBytes:]
	body[0] = flags
	putHeader(header, body, s)
	return b
}

func putHeader(header, body []byte, s salt) {
	binary.LittleEndian.PutUint32(header, uint32(len(body)))
	binary.LittleEndian.PutUint32(header[4:], s.sum(body))
	binary.LittleEndian.PutUint32(header[8:], s.sum(header[:8]))
}

// bodyLength reads a header: the length of the body, and its sum.
func bodyLength(b []byte, s salt) (length int, sum uint32, err error) {
	header := [headerBytes]byte{}
	if copy(header[:], b); header == [headerBytes]byte{} {
		return 0, 0, errEnd
	}
	n := binary.LittleEndian.Uint32(header[:])
	if len(b) < headerBytes || n < 1 || n > maxBodyBytes || s.sum(header[:8]) != binary.LittleEndian.Uint32(header[8:]) {
		return 0, 0, errBroken
	}
	return int(n), binary.LittleEndian.Uint32(header[4:]), nil
}

// read reads the record at the start of b and returns its length. The values of the changes are their own.
func (c *codec) read(b []byte, s salt) (record, int, error) {
	c.plain = nil
	r, n, err := c.readOnce(b, s)
	c.plain = nil // it is the caller's
	return r, n, err
}

// readOnce is read for a caller who is done with the changes before the next call.
func (c *codec) readOnce(b []byte, s salt) (record, int, error) {
	body, sum, err := bodyOf(b, s)
	if err != nil {
		return record{}, 0, err
	}
	r, err := c.body(body, s, sum)
	return r, headerBytes + len(body), err
}

// bodyOf returns the body of the record at the start of b, and the sum that it has to have.
func bodyOf(b []byte, s salt) (body []byte, sum uint32, err error) {
	n, sum, err := bodyLength(b, s)
	if err == nil && n > len(b)-headerBytes {
		err = errBroken
	}
	if err != nil {
		return nil, 0, err
	}
	return b[headerBytes : headerBytes+n], sum, nil
}

// body decodes a body of changes. Their values are valid until the next call.
func (c *codec) body(b []byte, s salt, sum uint32) (record, error) {
	flags, group, content, err := c.content(b, s, sum)
	if err == nil && flags&ofIndex != 0 {
		err = errBroken
	}
	if err != nil {
		return record{}, err
	}
	r := record{last: flags&lastOfGroup != 0, group: group}
	r.changes, err = readChanges(content)
	return r, err
}

// content decodes a body. The content is valid until the next call.
func (c *codec) content(b []byte, s salt, sum uint32) (flags byte, group store.Revision, content []byte, err error) {
	if s.sum(b) != sum || b[0] >= flagsEnd {
		return 0, 0, nil, errBroken
	}
	head := reader{b: b[1:]}
	if group = head.revision(); head.err != nil {
		return 0, 0, nil, head.err
	}
	if b[0]&compressed == 0 {
		c.plain = append(c.plain[:0], head.b...)
	} else if c.plain, err = c.decoder.DecodeAll(head.b, c.plain[:0]); err != nil {
		return 0, 0, nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	return b[0], group, c.plain, nil
}

func appendChanges(b []byte, changes []change) []byte {
	var last int64
	for _, c := range changes {
		var flags byte
		if c.deleted {
			flags |= deletion
		}
		if c.created {
			flags |= creation
		}
		if c.forgotten {
			flags |= forgetting
		}
		if len(c.note) > 0 {
			flags |= noted
		}
		b = append(b, flags)
		b = binary.AppendUvarint(b, uint64(c.revision))
		b = binary.AppendVarint(b, milliseconds(c.time)-last)
		last = milliseconds(c.time)
		b = binary.AppendVarint(b, milliseconds(c.expires))
		b = appendBytes(b, c.key)
		b = appendBytes(b, c.value)
		if len(c.note) > 0 {
			b = appendBytes(b, c.note)
		}
	}
	return b
}

func appendBytes[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// milliseconds writes a time; zero is the zero time.
func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func timeAt(milliseconds int64) time.Time {
	if milliseconds == 0 {
		return time.Time{}
	}
	return time.UnixMilli(milliseconds)
}

// readChanges reads the changes of a body. The values are parts of b.
func readChanges(b []byte) (changes []change, err error) {
	r := reader{b: b}
	var last int64
	for len(r.b) > 0 && r.err == nil {
		flags := r.byte()
		if flags >= changeFlagsEnd {
			r.fail()
		}
		c := change{deleted: flags&deletion != 0, created: flags&creation != 0, forgotten: flags&forgetting != 0, revision: r.revision()}
		last += r.varint()
		c.time, c.expires = timeAt(last), timeAt(r.varint())
		c.key, c.value = string(r.bytes()), r.bytes()
		if flags&noted != 0 {
			c.note = r.bytes()
		}
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

func (r *reader) revision() store.Revision { return store.Revision(r.uvarint(math.MaxInt64)) }

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
