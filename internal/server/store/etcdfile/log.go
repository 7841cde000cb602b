package etcdfile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace/millrace/internal/protobuf"
)

// The log is in files, each named by its number and that of its first entry. A file has records, each with a checksum
// of all before it, and then zeros: a file has its size from the beginning.
const (
	recordEntry    = 2 // the kinds of records
	recordChecksum = 4 // what the checksum is so far; a file begins with one

	fieldRecordKind, fieldRecordSum, fieldRecordData        = 1, 2, 3
	fieldEntryKind, fieldEntryIndex, fieldEntryData         = 1, 3, 4
	sector                                                  = 512
	maxRecordSize                                    uint64 = 64 << 20 // that of a file; etcd takes requests of 1.5 MiB
)

// change is an entry of the log.
type change struct {
	kind  uint64
	index uint64
	data  []byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errLog = errors.New("it is damaged, or no log of etcd")

// segment is a file of the log.
type segment struct {
	path          string
	number, first uint64
}

// readLog applies what a log has and the database lacks.
func (s *state) readLog(dir string) error {
	files, err := segments(dir)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		if s.index > 0 {
			return fmt.Errorf("%s has no log: its newest entry should be %d, as that of the database, or a later one", dir, s.index)
		}
		return nil // etcd was killed at its first start, before it wrote anything
	}
	for len(files) > 1 && files[1].first <= s.index {
		files = files[1:] // all of the first one is in the database
	}
	if first := files[0].first; first > s.index+1 {
		return fmt.Errorf("%s begins with entry %d, and the database has entries up to %d: entries between them are missing", files[0].path, first, s.index)
	}
	l := log{after: s.index, last: max(files[0].first, 1) - 1}
	for i, f := range files {
		if err := l.read(f, i+1 == len(files)); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	if l.last < s.index {
		return fmt.Errorf("%s ends with entry %d, and the database has entries up to %d: it is not the log of this database, or it is damaged", dir, l.last, s.index)
	}
	for _, c := range l.changes {
		if err := s.apply(c); err != nil {
			return fmt.Errorf("%s: entry %d: %w", dir, c.index, err)
		}
	}
	return nil
}

// segments returns the files of a log in their order.
func segments(dir string) ([]segment, error) {
	found, err := os.ReadDir(dir) // sorted
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []segment
	for _, f := range found {
		if !strings.HasSuffix(f.Name(), ".wal") {
			continue // such as one that is prepared for later
		}
		s := segment{path: filepath.Join(dir, f.Name())}
		if n, err := fmt.Sscanf(f.Name(), "%016x-%016x.wal", &s.number, &s.first); n != 2 || err != nil {
			return nil, fmt.Errorf("%s is not named as a file of etcd's log", s.path)
		}
		if n := len(all); n > 0 && (s.number != all[n-1].number+1 || s.first < all[n-1].first) {
			return nil, fmt.Errorf("%s does not follow %s: a file of etcd's log is missing", s.path, all[n-1].path)
		}
		all = append(all, s)
	}
	return all, nil
}

// log is a log while it is read.
type log struct {
	after   uint64 // entries up to this one are not kept
	changes []change
	last    uint64 // the number of the newest entry
	sum     uint32
	summed  bool // the checksum is known
}

// read reads a file of the log.
func (l *log) read(s segment, newest bool) error {
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := sizeOf(f)
	if err != nil {
		return err
	}
	return l.readFrom(bufio.NewReaderSize(f, 1<<20), size, newest)
}

func (l *log) readFrom(f io.Reader, size int64, newest bool) error {
	r := records{from: f, left: size, newest: newest}
	for {
		at := size - r.left
		record, err := r.next()
		if err == nil && record == nil {
			return nil
		}
		var entry []byte
		if err == nil {
			if entry, err = l.check(record); err != nil && newest && torn(record, at+recordHead) {
				return nil
			}
		}
		if err == nil && entry != nil {
			err = l.entry(entry)
		}
		if err != nil {
			return fmt.Errorf("record at byte %d: %w", at, err)
		}
	}
}

// records are those of a file.
type records struct {
	from   io.Reader
	left   int64
	newest bool // it is the newest file, which may end with a part of a record
	buffer []byte
}

// recordHead is the size of what is before a record: its size (56 bits), and how many bytes fill it up.
const recordHead = 8

// next returns the next record, which is valid until the next call, or nil at the end.
func (r *records) next() ([]byte, error) {
	if r.left < recordHead {
		if r.left > 0 && !r.newest {
			return nil, fmt.Errorf("%w: it is cut off", errLog)
		}
		return nil, nil
	}
	var head [recordHead]byte
	if _, err := io.ReadFull(r.from, head[:]); err != nil {
		return nil, err
	}
	r.left -= recordHead
	word := binary.LittleEndian.Uint64(head[:])
	if word == 0 {
		return nil, nil
	}
	size, fill := word&(1<<56-1), word>>56
	if fill != 0 && fill&^7 != 0x80 || size == 0 || size > maxRecordSize {
		return nil, fmt.Errorf("%w: its size is %d", errLog, size)
	}
	all := int64(size + fill&7)
	if all > r.left {
		if !r.newest {
			return nil, fmt.Errorf("%w: it is cut off", errLog)
		}
		return nil, nil
	}
	if int64(cap(r.buffer)) < all {
		r.buffer = make([]byte, all)
	}
	r.buffer = r.buffer[:all]
	if _, err := io.ReadFull(r.from, r.buffer); err != nil {
		return nil, err
	}
	r.left -= all
	return r.buffer[:size], nil
}

// torn reports whether a part of a record was never written: a sector of the disk has zeros only. Such a record is the
// last one, and nobody was told that it is there.
func torn(record []byte, at int64) bool {
	for len(record) > 0 {
		n := min(int64(len(record)), sector-at%sector)
		if len(strings.Trim(string(record[:n]), "\x00")) == 0 {
			return true
		}
		record, at = record[n:], at+n
	}
	return false
}

// check checks the checksum of a record, and returns the entry in it, if it has one.
func (l *log) check(record []byte) (entry []byte, err error) {
	var kind uint64
	var sum uint32
	data := []byte{}
	fields := protobuf.Scan(record)
	for fields.Next() {
		switch fields.Number {
		case fieldRecordKind:
			kind = fields.Varint
		case fieldRecordSum:
			sum = uint32(fields.Varint)
		case fieldRecordData:
			data = fields.Bytes
		}
	}
	if err := fields.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", errLog, err)
	}
	next := sum
	if kind != recordChecksum {
		next = crc32.Update(l.sum, castagnoli, data)
	} else if l.summed {
		next = l.sum
	}
	if next != sum {
		return nil, fmt.Errorf("%w: its checksum is wrong", errLog)
	}
	l.sum, l.summed = next, true
	if kind != recordEntry {
		return nil, nil
	}
	return data, nil
}

// entry takes an entry in. It replaces those of its number and later ones, which were not decided.
func (l *log) entry(b []byte) error {
	var c change
	fields := protobuf.Scan(b)
	for fields.Next() {
		switch fields.Number {
		case fieldEntryKind:
			c.kind = fields.Varint
		case fieldEntryIndex:
			c.index = fields.Varint
		case fieldEntryData:
			c.data = append([]byte{}, fields.Bytes...)
		}
	}
	if err := fields.Err(); err != nil {
		return fmt.Errorf("%w: entry: %w", errLog, err)
	}
	if c.index == 0 || c.index > l.last+1 {
		return fmt.Errorf("%w: entry %d follows entry %d", errLog, c.index, l.last)
	}
	l.last = c.index
	if c.index <= l.after {
		l.changes = nil
		return nil
	}
	l.changes = append(l.changes[:c.index-l.after-1], c)
	return nil
}
