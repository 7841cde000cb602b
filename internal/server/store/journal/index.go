package journal

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
)

// Snapshots and archives end with a list of their contents, and a trailer that says where it is. So a
// reader of the past reads only the records that it needs.
//
// Both have an index of their keys: for each key, in order, the revisions of its changes. The index is in records of its
// own, which the contents list by their first keys. In an archive, where revisions are dense, a revision tells where a
// change is; in a snapshot, whose changes are in the order of their keys, the number of the key does.

// extent is where a record is, and what its first change is.
type extent struct {
	offset   int64
	length   int
	revision store.Revision
	number   int // of the first change, or of the first key of a record of the index
	time     time.Time
	key      string
}

// contents lists the records of a file.
type contents struct {
	changes []extent       // the records of changes, in their order in the file
	keys    []extent       // the records of the index
	last    store.Revision // of an archive's last change
	made    time.Time
}

const trailerBytes = 12

func (d *contents) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(d.last))
	b = binary.AppendVarint(b, milliseconds(d.made))
	for _, list := range [][]extent{d.changes, d.keys} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, e := range list {
			b = binary.AppendUvarint(b, uint64(e.offset))
			b = binary.AppendUvarint(b, uint64(e.length))
			b = binary.AppendUvarint(b, uint64(e.revision))
			b = binary.AppendUvarint(b, uint64(e.number))
			b = binary.AppendVarint(b, milliseconds(e.time))
			b = appendBytes(b, e.key)
		}
	}
	return b
}

// parseContents reads what append wrote. No record may end after limit.
func parseContents(b []byte, limit int64) (d contents, err error) {
	r := reader{b: b}
	d.last, d.made = r.revision(), timeAt(r.varint())
	for _, list := range []*[]extent{&d.changes, &d.keys} {
		for range r.uvarint(uint64(len(r.b))) {
			e := extent{offset: int64(r.uvarint(uint64(limit))), length: int(r.uvarint(maxBodyBytes + headerBytes)), revision: r.revision()}
			e.number = int(r.uvarint(math.MaxInt64))
			e.time, e.key = timeAt(r.varint()), string(r.bytes())
			if e.offset+int64(e.length) > limit {
				r.fail()
			}
			if r.err != nil {
				return contents{}, r.err
			}
			*list = append(*list, e)
		}
	}
	if r.err == nil && (len(r.b) > 0 || len(d.changes) == 0) {
		r.fail()
	}
	return d, r.err
}

// readContents reads the contents of a file, whose head has been read.
func readContents(s *source, c *codec, size int64) (contents, error) {
	var trailer [trailerBytes]byte
	if size < int64(headBytes+trailerBytes) {
		return contents{}, errBroken
	}
	if _, err := s.file.ReadAt(trailer[:], size-trailerBytes); err != nil {
		return contents{}, err
	}
	at := int64(binary.LittleEndian.Uint64(trailer[:]))
	if s.salt.sum(trailer[:8]) != binary.LittleEndian.Uint32(trailer[8:]) || at < int64(headBytes) || at > size-trailerBytes {
		return contents{}, errBroken
	}
	content, err := c.indexAt(s, at, int(size-trailerBytes-at))
	if err != nil {
		return contents{}, fmt.Errorf("record at byte %d: %w", at, err)
	}
	return parseContents(content, at)
}

func (s salt) trailer(at int64) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(at))
	return binary.LittleEndian.AppendUint32(b, s.sum(b))
}

// indexAt reads the record of an index. The content is valid until the next call.
func (c *codec) indexAt(s *source, at int64, length int) ([]byte, error) {
	c.stored = slices.Grow(c.stored[:0], length)[:length]
	if _, err := s.file.ReadAt(c.stored, at); err != nil {
		return nil, err
	}
	body, sum, err := bodyOf(c.stored, s.salt)
	if err != nil {
		return nil, err
	}
	flags, _, content, err := c.content(body, s.salt, sum)
	if err == nil && flags&ofIndex == 0 {
		err = errBroken
	}
	return content, err
}

// findKeys calls visit for the keys with a prefix, in order, with their numbers and their changes, which are valid until
// it returns.
func (d *contents) findKeys(c *codec, s *source, prefix string, visit func(number int, key string, changes []indexed)) error {
	for _, e := range withPrefix(d.keys, prefix) {
		content, err := c.indexAt(s, e.offset, e.length)
		if err == nil {
			number := e.number
			for key, changes := range readKeys(content, &err) {
				if strings.HasPrefix(key, prefix) {
					visit(number, key, changes)
				}
				number++
			}
		}
		if err != nil {
			return fmt.Errorf("%s, index at byte %d: %w", s.name, e.offset, err)
		}
	}
	return nil
}

// place returns where the change with a number is.
func (d *contents) place(s *source, number int) memory.Place {
	i := sort.Search(len(d.changes), func(i int) bool { return d.changes[i].number > number }) - 1
	return d.changes[max(i, 0)].place(s, number-d.changes[max(i, 0)].number)
}

// indexed is a change as an index has it.
type indexed struct {
	revision store.Revision
	deleted  bool
}

// appendKey appends a key and its changes to a record of an index. The key that was appended before is given.
func appendKey(b []byte, before, key string, changes []indexed) []byte {
	shared := 0
	for shared < min(len(before), len(key)) && before[shared] == key[shared] {
		shared++
	}
	b = binary.AppendUvarint(b, uint64(shared))
	b = appendBytes(b, key[shared:])
	b = binary.AppendUvarint(b, uint64(len(changes)))
	var last store.Revision
	for _, c := range changes {
		n := uint64(c.revision-last) << 1
		if c.deleted {
			n |= 1
		}
		b, last = binary.AppendUvarint(b, n), c.revision
	}
	return b
}

// readKeys reads the keys of a record of an index, and their changes, which are valid until the next key.
func readKeys(b []byte, failed *error) iter.Seq2[string, []indexed] {
	return func(yield func(string, []indexed) bool) {
		r, key := reader{b: b}, ""
		var changes []indexed
		for len(r.b) > 0 {
			key = key[:r.uvarint(uint64(len(key)))] + string(r.bytes())
			changes = changes[:0]
			var last store.Revision
			for range r.uvarint(uint64(len(r.b))) {
				n := r.uvarint(1 << 62)
				last += store.Revision(n >> 1)
				changes = append(changes, indexed{last, n&1 != 0})
			}
			if len(changes) == 0 {
				r.fail()
			}
			if *failed = r.err; r.err != nil || !yield(key, changes) {
				return
			}
		}
	}
}

// withPrefix returns those of some records, each beginning with a key and all in order of keys, that may have keys with
// a prefix.
func withPrefix(all []extent, prefix string) []extent {
	first := sort.Search(len(all), func(i int) bool { return all[i].key > prefix })
	end := sort.Search(len(all), func(i int) bool { return all[i].key > prefix && !strings.HasPrefix(all[i].key, prefix) })
	return all[max(first-1, 0):end]
}

// indexWriter collects the keys of an index, in their order.
type indexWriter struct {
	to            *recordWriter
	content       []byte
	first, before string
	keys, begun   int // the number of keys, and of those before content
}

func (w *indexWriter) add(key string, changes []indexed) error {
	if len(w.content) == 0 {
		w.first, w.before, w.begun = key, "", w.keys
	}
	w.content = appendKey(w.content, w.before, key, changes)
	w.before = key
	if w.keys++; len(w.content) < indexRecordBytes {
		return nil
	}
	return w.flush()
}

// flush writes what was collected.
func (w *indexWriter) flush() error {
	if len(w.content) == 0 {
		return nil
	}
	err := w.to.index(w.first, w.begun, w.content)
	w.content = w.content[:0]
	return err
}
