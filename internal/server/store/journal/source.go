package journal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/millrace/millrace/internal/server/store/memory"
)

// source is a file from which values are read. When its file is removed, readers may still have it, and places in the
// remembered past; the operating system keeps it until the garbage collector has closed it.
type source struct {
	file   file
	name   string
	salt   salt
	number int // in the order in which they were opened
}

// sources are the files that have not been removed.
type sources struct {
	mu     sync.Mutex // guards everything below
	opened int
	all    map[string]*source
}

func (ss *sources) add(s *source) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.all == nil {
		ss.all = make(map[string]*source)
	}
	ss.opened++
	s.number = ss.opened
	ss.all[s.name] = s
}

func (ss *sources) forget(name string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.all, name)
}

func (ss *sources) close() (err error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, s := range ss.all {
		err = errors.Join(err, s.file.Close())
	}
	ss.all = nil
	return err
}

// span is where a record is in what was appended, and how many changes it has.
type span struct{ offset, length, changes int }

// placesOf returns the places of the values of records, one after the other, that begin at a place of a file.
func placesOf(s *source, at int64, spans []span) (places []memory.Place) {
	for _, r := range spans {
		for i := range r.changes {
			places = append(places, memory.Place{File: s, Offset: at + int64(r.offset), Length: uint32(r.length), Index: uint32(i)})
		}
	}
	return places
}

// place is that of a change of the record.
func (e *extent) place(s *source, index int) memory.Place {
	return memory.Place{File: s, Offset: e.offset, Length: uint32(e.length), Index: uint32(index)}
}

// load reads the values at some places, and reads each record once.
func (s *Store) load(places []memory.Place, visit func(n int, value []byte)) error {
	return s.loadChanges(places, func(n int, c *change) { visit(n, bytes.Clone(c.value)) })
}

// loadChanges reads the changes at some places, in any order. They are valid until visit returns.
func (s *Store) loadChanges(places []memory.Place, visit func(n int, c *change)) error {
	order := make([]int, len(places))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		p, q := &places[a], &places[b]
		return cmp.Or(cmp.Compare(p.File.(*source).number, q.File.(*source).number), cmp.Compare(p.Offset, q.Offset))
	})
	c := s.decoder()
	defer s.decoders.Put(c)
	var changes []change
	for i, n := range order {
		p := places[n]
		if last := places[order[max(i-1, 0)]]; i == 0 || last.File != p.File || last.Offset != p.Offset {
			var err error
			if changes, err = c.readAt(p); err != nil {
				return err
			}
		}
		if int(p.Index) >= len(changes) {
			return fmt.Errorf("%w: it has no change %d", errBroken, p.Index)
		}
		visit(n, &changes[p.Index])
	}
	return nil
}

// readAt reads the changes of the record at a place. They are valid until the next call.
func (c *codec) readAt(p memory.Place) ([]change, error) {
	s := p.File.(*source)
	c.stored = slices.Grow(c.stored[:0], int(p.Length))[:p.Length]
	_, err := s.file.ReadAt(c.stored, p.Offset)
	if err == nil {
		var r record
		if r, _, err = c.readOnce(c.stored, s.salt); err == nil {
			return r.changes, nil
		}
	}
	return nil, fmt.Errorf("%s, record at byte %d: %w", s.name, p.Offset, err)
}
