package openapi

import (
	"bytes"
	"crypto/sha512"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/flate"

	"github.com/millrace/millrace/internal/server/resource"
)

// The document of version 2 describes all kinds, and with thousands of custom kinds it has tens of megabytes. So its sections are compressed
// each by itself, and when a kind changes, only the sections of that kind are made again. A deflate stream may be put together of others that end
// at a byte; its checksum can be computed from theirs.

// assembled is the document in one form.
type assembled struct {
	builtin []*resource.Face // that are not custom
	pieces  map[sectionKey]*piece
	used    time.Time

	// Of what, and what, was assembled last.
	from []*piece
	text []byte
	hash string
}

// piece is a compressed section.
type piece struct {
	text   []byte
	sum    uint32 // CRC-32 of what is compressed
	length uint64 // of what is compressed
	hash   [sha512.Size]byte
}

// assemble returns the compressed document of version 2, and its hash.
func (d *Documents) assemble(f form, foreign []Foreign) (text []byte, hash string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	faces := d.facesOf(everything)
	of := d.document(faces, foreign)
	builtin := slices.DeleteFunc(slices.Clone(faces), func(f *resource.Face) bool { return f.Of.Custom })
	a := d.whole[f]
	if a == nil || !slices.Equal(a.builtin, builtin) {
		a = &assembled{builtin: builtin, pieces: map[sectionKey]*piece{}}
	}
	a.used = time.Now()
	if err := a.update(of, f); err != nil {
		return nil, "", fmt.Errorf("describe everything: %w", err)
	}
	if !d.closed {
		d.whole[f] = a
		d.sweepLaterLocked()
	}
	return a.text, a.hash, nil
}

// update makes the pieces that are missing, forgets those that are not needed any more, and puts them together.
func (a *assembled) update(of *document, f form) error {
	sections := of.sections(true)
	if len(a.builtin) == 0 { // the first path would follow nothing
		sections = []section{{write: of.write}}
	}
	all := make([]*piece, len(sections))
	next := make(map[sectionKey]*piece, len(sections))
	errs := make([]error, len(sections))
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	var making sync.WaitGroup
	for i, s := range sections {
		if old := a.pieces[s.key]; old != nil {
			all[i] = old
			continue
		}
		turns <- struct{}{}
		making.Go(func() {
			defer func() { <-turns }()
			all[i], errs[i] = compress(s, f, i == 0)
		})
	}
	making.Wait()
	for i, s := range sections {
		if errs[i] != nil {
			return errs[i]
		}
		if s.key.part != "" {
			next[s.key] = all[i]
		}
	}
	a.pieces = next
	same := func(x, y *piece) bool { return x.hash == y.hash }
	if a.text == nil || !slices.EqualFunc(a.from, all, same) {
		a.from, a.text = all, join(all)
		a.hash = hashOf(all)
	}
	return nil
}

// compress writes a section.
func compress(s section, f form, first bool) (*piece, error) {
	var out bytes.Buffer
	z, err := flate.NewWriter(&out, flate.DefaultCompression)
	if err != nil {
		return nil, err
	}
	p, sum, hash := &piece{}, crc32.NewIEEE(), sha512.New()
	to := io.MultiWriter(z, sum, hash, (*counter)(&p.length))
	w := f.resume(to, s.schemas)
	if first {
		w = f.writer(to)
	}
	if err := s.write(w); err != nil {
		return nil, err
	}
	if err := z.Flush(); err != nil {
		return nil, err
	}
	p.text, p.sum = bytes.Clone(out.Bytes()), sum.Sum32()
	hash.Sum(p.hash[:0])
	return p, nil
}

// counter counts what is written.
type counter uint64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

func hashOf(all []*piece) string {
	h := sha512.New()
	for _, p := range all {
		h.Write(p.hash[:])
	}
	return fmt.Sprintf("%X", h.Sum(nil))
}

// join makes one gzip member of pieces.
func join(all []*piece) []byte {
	const header, unknown = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00", 0xff // deflate, no time, no name; an unknown system
	const last = "\x01\x00\x00\xff\xff"                                  // an empty block, which is the last one
	size := len(header) + len(last) + 9
	for _, p := range all {
		size += len(p.text)
	}
	out := append(append(make([]byte, 0, size), header...), unknown)
	sum, length := uint32(0), uint64(0)
	for _, p := range all {
		out = append(out, p.text...)
		sum = joinSums(sum, p.sum, p.length)
		length += p.length
	}
	out = append(out, last...)
	out = binary.LittleEndian.AppendUint32(out, sum)
	return binary.LittleEndian.AppendUint32(out, uint32(length))
}

// joinSums is the CRC-32 of two texts, one after the other, of which the second one is length bytes long. The checksum of a text is the remainder
// of a polynomial, and so what comes before a text is multiplied by x once for each of its bits. Polynomials are written with x⁰ as the highest bit.
func joinSums(first, second uint32, length uint64) uint32 {
	const one, x8 = uint32(1) << 31, uint32(1) << 23
	factor, square := one, x8
	for ; length > 0; length >>= 1 {
		if length&1 != 0 {
			factor = multiply(factor, square)
		}
		square = multiply(square, square)
	}
	return multiply(first, factor) ^ second
}

// multiply multiplies polynomials modulo that of CRC-32.
func multiply(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		if a>>31 != 0 {
			product ^= b
		}
		b = b>>1 ^ crc32.IEEE&-(b&1)
	}
	return product
}
